"""No tool of a server has the name of another one."""

import pytest

from daemon_client import Refused
from guest_images import image_path
from mcp_servers import raw

pytestmark = pytest.mark.trio


@pytest.mark.parametrize(
    ("harness", "complaint"),
    [
        ({"name": "raw"}, "a harness is called `raw` too - at `mcps[0].name`"),
        ({"name": "alarm", "prefix": "raw"}, "tool `raw__say` could be one of MCP server `raw`"),
    ],
)
async def test_a_harness_that_could_be_taken_for_a_server_is_refused(client, harness, complaint):
    await client.put(harness["name"], image_path("alarm"))
    with pytest.raises(Refused) as refused:
        await client.declare("ann", harness, mcps=[raw("plain")])
    assert complaint in refused.value.message
    assert refused.value.code == 400


async def test_harnesses_and_servers_of_different_names_go_together(client, served):
    await client.put("alarm", image_path("alarm"))
    agent = await client.declare("ann", {"name": "alarm", "prefix": "raw2"}, mcps=[raw("plain")])
    record = served.runtime.agents.get(agent)
    await served.runtime.mcp.ready(record, 30.0)
    assert {"raw2__say", "raw__echo"} <= set(served.runtime.toolbox.tools(record))
