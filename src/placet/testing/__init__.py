"""Tools for tests that ship with the package: fakes, samples, and the contract suite of every port."""
