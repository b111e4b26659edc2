"""Shipped test parts: clocks, recorders, scripted people and the contract suite of every port."""
