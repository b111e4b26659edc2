"""Contract suites: the tests that every implementation of a port must pass, also those of third parties."""

import pytest

pytest.register_assert_rewrite(
    "placet.testing.contracts.case_store",
    "placet.testing.contracts.channel",
    "placet.testing.contracts.detector",
    "placet.testing.contracts.erasure",
    "placet.testing.contracts.grant_store",
    "placet.testing.contracts.key_store",
    "placet.testing.contracts.outbox_store",
    "placet.testing.contracts.relay_audit",
    "placet.testing.contracts.relay_store",
    "placet.testing.contracts.saver",
    "placet.testing.contracts.store",
    "placet.testing.contracts.tool_approval",
)
