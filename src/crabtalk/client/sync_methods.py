# ruff: noqa: A002, E501 - what the schema says
"""Generated from proto/crabtalk.proto by `make proto`: a method for each request."""

from crabtalk.client.sync_base import SyncBase, SyncStream
from crabtalk.wire.pb import crabtalk_pb2 as pb


class SyncMethods(SyncBase):
    """What a client can ask of the daemon; fields that are left out are empty, 0 or false."""

    def send(self, *, agent: str = "", content: str = "", sender: str | None = None, tool_choice: str | None = None, session_handle: str = "") -> pb.SendResponse:
        """Run a turn of an agent and reply when it has ended."""
        return self._request(pb.ClientMessage(send=pb.SendMsg(agent=agent, content=content, sender=sender, tool_choice=tool_choice, session_handle=session_handle)), "response", pb.SendResponse)

    def stream(self, *, agent: str = "", content: str = "", sender: str | None = None, guest: str | None = None, tool_choice: str | None = None, ephemeral: bool = False, correlation_id: int | None = None, session_handle: str = "") -> SyncStream[pb.StreamEvent]:
        """Run a turn of an agent and reply as it goes on."""
        return self._stream(pb.ClientMessage(stream=pb.StreamMsg(agent=agent, content=content, sender=sender, guest=guest, tool_choice=tool_choice, ephemeral=ephemeral, correlation_id=correlation_id, session_handle=session_handle)), "stream", pb.StreamEvent)

    def list_active_conversations(self, *, agent: str = "", sender: str = "") -> pb.ActiveConversationList:
        """List sessions that are in memory."""
        return self._request(pb.ClientMessage(list_active_conversations=pb.ListActiveConversationsMsg(agent=agent, sender=sender)), "active_conversations", pb.ActiveConversationList)

    def kill(self, *, session_handle: str = "") -> None:
        """Stop a session's turn and drop the session from memory."""
        self._request(pb.ClientMessage(kill=pb.KillMsg(session_handle=session_handle)), "pong", pb.Pong)

    def compact(self, *, prompt: str = "", session_handle: str = "") -> pb.CompactResponse:
        """Replace a session's messages by a summary of them."""
        return self._request(pb.ClientMessage(compact=pb.CompactMsg(prompt=prompt, session_handle=session_handle)), "compact", pb.CompactResponse)

    def list_conversations(self, *, agent: str = "", sender: str = "") -> pb.ConversationList:
        """List stored sessions."""
        return self._request(pb.ClientMessage(list_conversations=pb.ListConversationsMsg(agent=agent, sender=sender)), "conversation_list", pb.ConversationList)

    def set_active_model(self, *, model: str = "") -> None:
        """Choose the model of agents that name none."""
        self._request(pb.ClientMessage(set_active_model=pb.SetActiveModelMsg(model=model)), "pong", pb.Pong)

    def list_mcps(self, *, agent: str = "") -> pb.McpList:
        """List MCP servers."""
        return self._request(pb.ClientMessage(list_mcps=pb.ListMcpsMsg(agent=agent)), "mcp_list", pb.McpList)

    def list_agents(self) -> pb.AgentList:
        """List agents."""
        return self._request(pb.ClientMessage(list_agents=pb.ListAgentsMsg()), "agent_list", pb.AgentList)

    def get_agent(self, *, name: str = "") -> pb.AgentInfo:
        """Find an agent by its name; every other request takes its id."""
        return self._request(pb.ClientMessage(get_agent=pb.GetAgentMsg(name=name)), "agent_info", pb.AgentInfo)

    def create_agent(self, *, name: str = "", config: str = "") -> pb.AgentInfo:
        """Declare an agent."""
        return self._request(pb.ClientMessage(create_agent=pb.CreateAgentMsg(name=name, config=config)), "agent_info", pb.AgentInfo)

    def update_agent(self, *, config: str = "", agent: str = "") -> pb.AgentInfo:
        """Change an agent's declaration."""
        return self._request(pb.ClientMessage(update_agent=pb.UpdateAgentMsg(config=config, agent=agent)), "agent_info", pb.AgentInfo)

    def delete_agent(self, *, agent: str = "") -> None:
        """Forget an agent, its wakes, subscriptions and keys."""
        self._request(pb.ClientMessage(delete_agent=pb.DeleteAgentMsg(agent=agent)), "pong", pb.Pong)

    def list_skills(self) -> pb.SkillList:
        """List skills."""
        return self._request(pb.ClientMessage(list_skills=pb.ListSkillsMsg()), "skill_list", pb.SkillList)

    def ping(self) -> None:
        """Ask whether the daemon answers."""
        self._request(pb.ClientMessage(ping=pb.PingMsg()), "pong", pb.Pong)

    def get_config(self) -> pb.ConfigMsg:
        """Show the daemon's configuration, secrets blanked."""
        return self._request(pb.ClientMessage(get_config=pb.GetConfigMsg()), "config", pb.ConfigMsg)

    def get_stats(self) -> pb.Stats:
        """Count what the daemon is doing."""
        return self._request(pb.ClientMessage(get_stats=pb.GetStatsMsg()), "stats", pb.Stats)

    def subscribe_events(self) -> SyncStream[pb.AgentEventMsg]:
        """Follow the turns of all agents."""
        return self._stream(pb.ClientMessage(subscribe_events=pb.SubscribeEventsMsg()), "agent_event", pb.AgentEventMsg)

    def list_models(self) -> pb.ModelList:
        """List models."""
        return self._request(pb.ClientMessage(list_models=pb.ListModelsMsg()), "model_list", pb.ModelList)

    def get_conversation_history(self, *, file_path: str = "") -> pb.ConversationHistory:
        """Read a session."""
        return self._request(pb.ClientMessage(get_conversation_history=pb.GetConversationHistoryMsg(file_path=file_path)), "conversation_history", pb.ConversationHistory)

    def delete_conversation(self, *, file_path: str = "") -> None:
        """Delete a stored session."""
        self._request(pb.ClientMessage(delete_conversation=pb.DeleteConversationMsg(file_path=file_path)), "pong", pb.Pong)

    def subscribe_event(self, *, source: str = "", target_agent: str = "", once: bool = False, target_harness: str = "") -> pb.SubscriptionInfo:
        """Have events delivered to an agent or a harness."""
        return self._request(pb.ClientMessage(subscribe_event=pb.SubscribeEventMsg(source=source, target_agent=target_agent, once=once, target_harness=target_harness)), "subscription_info", pb.SubscriptionInfo)

    def unsubscribe_event(self, *, id: int = 0) -> None:
        """End a subscription."""
        self._request(pb.ClientMessage(unsubscribe_event=pb.UnsubscribeEventMsg(id=id)), "pong", pb.Pong)

    def list_subscriptions(self) -> pb.SubscriptionList:
        """List subscriptions."""
        return self._request(pb.ClientMessage(list_subscriptions=pb.ListSubscriptionsMsg()), "subscription_list", pb.SubscriptionList)

    def publish_event(self, *, source: str = "", payload: str = "") -> None:
        """Publish an event; the reply says that its deliveries are stored."""
        self._request(pb.ClientMessage(publish_event=pb.PublishEventMsg(source=source, payload=payload)), "pong", pb.Pong)

    def upsert_mcp(self, *, config: str = "", agent: str = "") -> pb.McpInfo:
        """Declare an MCP server of an agent, or change it."""
        return self._request(pb.ClientMessage(upsert_mcp=pb.UpsertMcpMsg(config=config, agent=agent)), "mcp_info", pb.McpInfo)

    def delete_mcp(self, *, name: str = "", agent: str = "") -> None:
        """Forget an MCP server of an agent."""
        self._request(pb.ClientMessage(delete_mcp=pb.DeleteMcpMsg(name=name, agent=agent)), "pong", pb.Pong)

    def rename_agent(self, *, new_name: str = "", agent: str = "") -> pb.AgentInfo:
        """Give an agent another name."""
        return self._request(pb.ClientMessage(rename_agent=pb.RenameAgentMsg(new_name=new_name, agent=agent)), "agent_info", pb.AgentInfo)

    def subscribe_mcp_events(self) -> SyncStream[pb.McpEventMsg]:
        """Follow what becomes of MCP servers."""
        return self._stream(pb.ClientMessage(subscribe_mcp_events=pb.SubscribeMcpEventsMsg()), "mcp_event", pb.McpEventMsg)

    def reconnect_mcp(self, *, name: str = "", agent: str = "") -> pb.McpInfo:
        """Start an MCP server anew."""
        return self._request(pb.ClientMessage(reconnect_mcp=pb.ReconnectMcpMsg(name=name, agent=agent)), "mcp_info", pb.McpInfo)

    def get_skill(self, *, name: str = "") -> pb.SkillBody:
        """Read a skill."""
        return self._request(pb.ClientMessage(get_skill=pb.GetSkillMsg(name=name)), "skill_body", pb.SkillBody)

    def search_sessions(self, *, query: str = "", limit: int | None = None, context_before: int | None = None, context_after: int | None = None, agent: str = "", sender: str = "") -> pb.SessionHitList:
        """Search in stored sessions."""
        return self._request(pb.ClientMessage(search_sessions=pb.SearchSessionsMsg(query=query, limit=limit, context_before=context_before, context_after=context_after, agent=agent, sender=sender)), "session_hits", pb.SessionHitList)

    def cancel_stream(self, *, session_handle: str = "") -> None:
        """Stop the turn in a session that one waits for oneself, else what runs there."""
        self._request(pb.ClientMessage(cancel_stream=pb.CancelStreamMsg(session_handle=session_handle)), "pong", pb.Pong)

    def create_session(self, *, session_handle: str = "", agent: str = "", sender: str | None = None, root: str | None = None) -> None:
        """Open a session before anything runs in it."""
        self._request(pb.ClientMessage(create_session=pb.CreateSessionMsg(session_handle=session_handle, agent=agent, sender=sender, root=root)), "pong", pb.Pong)

    def schedule_wake(self, *, agent: str = "", harness: str = "", at_ms: int = 0, payload: bytes = b"", key: str | None = None) -> pb.WakeInfo:
        """Run a harness at an instant."""
        return self._request(pb.ClientMessage(schedule_wake=pb.ScheduleWakeMsg(agent=agent, harness=harness, at_ms=at_ms, payload=payload, key=key)), "wake_info", pb.WakeInfo)

    def cancel_wake(self, *, id: str = "") -> None:
        """Take a pending wake back."""
        self._request(pb.ClientMessage(cancel_wake=pb.CancelWakeMsg(id=id)), "pong", pb.Pong)

    def list_wakes(self, *, agent: str = "", harness: str = "") -> pb.WakeList:
        """List wakes that are pending or running."""
        return self._request(pb.ClientMessage(list_wakes=pb.ListWakesMsg(agent=agent, harness=harness)), "wake_list", pb.WakeList)

    def list_harnesses(self, *, agent: str = "") -> pb.HarnessList:
        """List the harnesses of an agent, or the stored images."""
        return self._request(pb.ClientMessage(list_harnesses=pb.ListHarnessesMsg(agent=agent)), "harness_list", pb.HarnessList)

    def inspect_harness(self, *, digest: str = "", agent: str = "", name: str = "") -> pb.HarnessInfo:
        """Show an image, and what is bound beside what it requests, without running it."""
        return self._request(pb.ClientMessage(inspect_harness=pb.InspectHarnessMsg(digest=digest, agent=agent, name=name)), "harness_info", pb.HarnessInfo)

    def call_tool(self, *, agent: str = "", harness: str = "", tool: str = "", args: bytes = b"", session_handle: str | None = None, deadline_ms: int | None = None) -> pb.ToolOutcome:
        """Call a tool."""
        return self._request(pb.ClientMessage(call_tool=pb.CallToolMsg(agent=agent, harness=harness, tool=tool, args=args, session_handle=session_handle, deadline_ms=deadline_ms)), "tool_outcome", pb.ToolOutcome)

    def list_invocations(self, *, since_ms: int = 0, limit: int = 0, harness: str = "") -> pb.InvocationList:
        """List what ran, newest first."""
        return self._request(pb.ClientMessage(list_invocations=pb.ListInvocationsMsg(since_ms=since_ms, limit=limit, harness=harness)), "invocation_list", pb.InvocationList)

    def put_harness(self, *, name: str = "", elf: bytes = b"", sha256: str = "") -> pb.HarnessInfo:
        """Store an image after it was verified and loaded."""
        return self._request(pb.ClientMessage(put_harness=pb.PutHarnessMsg(name=name, elf=elf, sha256=sha256)), "harness_info", pb.HarnessInfo)

    def remove_harness(self, *, name: str = "") -> None:
        """Forget an image that no agent declares."""
        self._request(pb.ClientMessage(remove_harness=pb.RemoveHarnessMsg(name=name)), "pong", pb.Pong)

    def list_running(self) -> pb.RunningList:
        """List what is queued, running or suspended."""
        return self._request(pb.ClientMessage(list_running=pb.ListRunningMsg()), "running_list", pb.RunningList)

    def tail_logs(self, *, level: str = "") -> SyncStream[pb.LogLine]:
        """Follow the log."""
        return self._stream(pb.ClientMessage(tail_logs=pb.TailLogsMsg(level=level)), "log_line", pb.LogLine)

    def tail_events(self, *, source: str = "") -> SyncStream[pb.BusEvent]:
        """Follow events."""
        return self._stream(pb.ClientMessage(tail_events=pb.TailEventsMsg(source=source)), "bus_event", pb.BusEvent)

    def subscribe_prompts(self) -> SyncStream[pb.Prompt]:
        """Say that this client can ask a person."""
        return self._stream(pb.ClientMessage(subscribe_prompts=pb.SubscribePromptsMsg()), "prompt", pb.Prompt)

    def answer_prompt(self, *, id: str = "", allow: bool = False, scope: str = "", text: str = "") -> None:
        """Answer a prompt."""
        self._request(pb.ClientMessage(answer_prompt=pb.AnswerPromptMsg(id=id, allow=allow, scope=scope, text=text)), "pong", pb.Pong)

    def list_approvals(self) -> pb.ApprovalList:
        """List approvals."""
        return self._request(pb.ClientMessage(list_approvals=pb.ListApprovalsMsg()), "approval_list", pb.ApprovalList)

    def revoke_approval(self, *, id: str = "") -> None:
        """Take an approval back."""
        self._request(pb.ClientMessage(revoke_approval=pb.RevokeApprovalMsg(id=id)), "pong", pb.Pong)

    def mcp_logs(self, *, agent: str = "", name: str = "") -> SyncStream[pb.LogLine]:
        """Follow what an MCP server writes to its standard error."""
        return self._stream(pb.ClientMessage(mcp_logs=pb.McpLogsMsg(agent=agent, name=name)), "log_line", pb.LogLine)

    def upgrade_harness(self, *, agent: str = "", name: str = "", sha256: str = "", confirm: bool = False) -> pb.HarnessInfo:
        """Have an agent run other bytes of a harness; unconfirmed, show the difference only."""
        return self._request(pb.ClientMessage(upgrade_harness=pb.UpgradeHarnessMsg(agent=agent, name=name, sha256=sha256, confirm=confirm)), "harness_info", pb.HarnessInfo)

    def extension(self, data: bytes) -> bytes:
        """For embedders; opaque to the daemon."""
        return self._request(pb.ClientMessage(extension=data), "extension", bytes)
