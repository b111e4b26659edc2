"""Approval: something was made, and a person says whether it may go out."""
