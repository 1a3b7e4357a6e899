"""What the console and the admin API behind it count, choose and say: pure parts."""
