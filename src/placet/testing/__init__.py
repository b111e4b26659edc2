"""Test parts that ship with the package: clock, fakes, reviewers, and the contract suite of every port."""
