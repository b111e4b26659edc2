"""Sends webhooks to other machines, through guarded HTTP."""
