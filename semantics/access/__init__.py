"""Who may do what: rows of ACLs, and what they come to."""
