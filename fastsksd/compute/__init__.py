"""Compiled mathematics on plain arrays: no options, no validation and no random generators."""
