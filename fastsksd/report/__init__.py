"""What people read: explanations, witnesses, words."""
