from placet.hook import FileSaver, LangGraphSaver, PostgresSaver, RedisSaver, Saver, SqliteSaver


def in_a_folder() -> Saver:
    return FileSaver("threads")


def in_postgresql() -> Saver:
    return PostgresSaver("postgresql://agents@db.example/agents")


def in_redis() -> Saver:
    return RedisSaver("redis://cache.example:6379/0", prefix="agents")


def in_a_langgraph_checkpointer(checkpointer) -> Saver:
    return LangGraphSaver(checkpointer, claims=SqliteSaver("claims.db"))


# What follows is for the tests.
from langgraph.checkpoint.memory import InMemorySaver  # noqa: E402

from placet.testing.threads import create_full_checkpoint  # noqa: E402

for saver in (in_a_folder(), in_a_langgraph_checkpointer(InMemorySaver())):
    checkpoint = create_full_checkpoint("user 7")
    saver.put(checkpoint)
    kept = saver.get("user 7")
    assert kept is not None
    assert kept.checkpoint == checkpoint
    saver.close()
