"""Messengers, one folder each: how a question is rendered, sent and answered there."""
