"""What people read: explanations, witnesses, words and tables."""
