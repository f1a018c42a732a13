"""Full text over what was said in sessions."""
