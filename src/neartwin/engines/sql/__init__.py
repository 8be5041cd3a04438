"""The one statement of a stage, and the few words in which engines spell it differently."""
