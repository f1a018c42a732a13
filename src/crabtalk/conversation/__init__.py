"""What an agent says and hears: values of a conversation, the seam of models, and the loop over both."""
