"""Whatever a client sends as a configuration: it is read, or refused with a place, and nothing else."""

from hypothesis import given, settings
from hypothesis import strategies as st

from crabtalk.config_patch import masked, merge_patch, with_kept_secrets
from crabtalk.declarations import AGENT_KEYS, HARNESS_KEYS, parse_config
from crabtalk.declared_servers import KEYS as MCP_KEYS
from crabtalk.errors import BadRequest

TEXTS = st.text(max_size=20) | st.sampled_from(
    [
        "/p",
        "os",
        "*",
        "a:*",
        "16MiB",
        "60/min",
        "UTC",
        "local",
        "api.x.org",
        "0" * 64,
        "http://[::1]:1",
        "a/b",
    ]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["path", "session", "ask", "value", "name", "$secret"]) | TEXTS, inner, max_size=3
        )
    ),
    max_leaves=4,
)


def tables(keys):
    """Tables with known keys mostly, and any values."""
    return st.dictionaries(st.sampled_from(sorted(keys)) | TEXTS, JSON, max_size=4)


HARNESSES = st.lists(tables(HARNESS_KEYS).map(lambda table: {"name": "os"} | table), max_size=3)
SERVERS = st.lists(tables(MCP_KEYS), max_size=3)
CONFIGS = st.tuples(tables(AGENT_KEYS), HARNESSES | JSON, SERVERS | JSON).map(
    lambda parts: parts[0] | {"harnesses": parts[1], "mcps": parts[2]}
)


def refusal(work):
    """Return the message of a refusal, "" when there was none."""
    try:
        work()
    except BadRequest as error:
        return error.message or "no message"
    return ""


@settings(max_examples=150, deadline=None)
@given(CONFIGS | JSON)
def test_a_configuration_is_read_or_refused_in_one_line(config):
    assert refusal(lambda: parse_config(config)).isprintable()


@settings(max_examples=50, deadline=None)
@given(CONFIGS, CONFIGS)
def test_patches_and_secrets_take_anything(config, patch):
    merged = merge_patch(config, patch)
    message = refusal(lambda: with_kept_secrets(masked(merged), config))
    assert message == "" or message.startswith("no secret is stored that could be kept - at `mcps")
