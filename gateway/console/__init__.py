"""The web console: pages beside the admin API, made on the server."""
