"""Dead letters that somebody looks at, sends again, or does not want."""
