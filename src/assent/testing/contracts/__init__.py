"""What every implementation of a port must do, as test suites that third parties run too."""

import pytest

pytest.register_assert_rewrite(
    "assent.testing.contracts.case_store",
    "assent.testing.contracts.channel",
    "assent.testing.contracts.detector",
    "assent.testing.contracts.erasure",
    "assent.testing.contracts.grant_store",
    "assent.testing.contracts.key_store",
    "assent.testing.contracts.outbox_store",
    "assent.testing.contracts.relay_audit",
    "assent.testing.contracts.relay_store",
    "assent.testing.contracts.saver",
    "assent.testing.contracts.store",
    "assent.testing.contracts.tool_approval",
)
