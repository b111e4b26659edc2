"""What every implementation of a port must do, as test suites that third parties run too."""
