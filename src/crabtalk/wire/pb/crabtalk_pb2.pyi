# ruff: noqa
# mypy: disable-error-code="type-arg"
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AgentEventKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TEXT_DELTA: _ClassVar[AgentEventKind]
    THINKING_DELTA: _ClassVar[AgentEventKind]
    TOOL_START: _ClassVar[AgentEventKind]
    TOOL_RESULT: _ClassVar[AgentEventKind]
    TOOLS_COMPLETE: _ClassVar[AgentEventKind]
    DONE: _ClassVar[AgentEventKind]
    TEXT_START: _ClassVar[AgentEventKind]
    TEXT_END: _ClassVar[AgentEventKind]
    THINKING_START: _ClassVar[AgentEventKind]
    THINKING_END: _ClassVar[AgentEventKind]

class SourceKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SOURCE_KIND_UNKNOWN: _ClassVar[SourceKind]
    LOCAL: _ClassVar[SourceKind]
    PACKAGE: _ClassVar[SourceKind]
    EXTERNAL: _ClassVar[SourceKind]

class McpStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MCP_STATUS_UNKNOWN: _ClassVar[McpStatus]
    CONNECTED: _ClassVar[McpStatus]
    DISCONNECTED: _ClassVar[McpStatus]
    FAILED: _ClassVar[McpStatus]
    CONNECTING: _ClassVar[McpStatus]

class McpEventKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MCP_EVENT_KIND_UNKNOWN: _ClassVar[McpEventKind]
    MCP_EVENT_KIND_CONNECTING: _ClassVar[McpEventKind]
    MCP_EVENT_KIND_CONNECTED: _ClassVar[McpEventKind]
    MCP_EVENT_KIND_FAILED: _ClassVar[McpEventKind]
    MCP_EVENT_KIND_DISCONNECTED: _ClassVar[McpEventKind]
TEXT_DELTA: AgentEventKind
THINKING_DELTA: AgentEventKind
TOOL_START: AgentEventKind
TOOL_RESULT: AgentEventKind
TOOLS_COMPLETE: AgentEventKind
DONE: AgentEventKind
TEXT_START: AgentEventKind
TEXT_END: AgentEventKind
THINKING_START: AgentEventKind
THINKING_END: AgentEventKind
SOURCE_KIND_UNKNOWN: SourceKind
LOCAL: SourceKind
PACKAGE: SourceKind
EXTERNAL: SourceKind
MCP_STATUS_UNKNOWN: McpStatus
CONNECTED: McpStatus
DISCONNECTED: McpStatus
FAILED: McpStatus
CONNECTING: McpStatus
MCP_EVENT_KIND_UNKNOWN: McpEventKind
MCP_EVENT_KIND_CONNECTING: McpEventKind
MCP_EVENT_KIND_CONNECTED: McpEventKind
MCP_EVENT_KIND_FAILED: McpEventKind
MCP_EVENT_KIND_DISCONNECTED: McpEventKind

class ClientMessage(_message.Message):
    __slots__ = ("request_id", "send", "stream", "list_active_conversations", "kill", "compact", "list_conversations", "set_active_model", "list_mcps", "list_agents", "get_agent", "create_agent", "update_agent", "delete_agent", "list_skills", "ping", "get_config", "get_stats", "subscribe_events", "list_models", "get_conversation_history", "delete_conversation", "subscribe_event", "unsubscribe_event", "list_subscriptions", "publish_event", "upsert_mcp", "delete_mcp", "rename_agent", "subscribe_mcp_events", "reconnect_mcp", "get_skill", "search_sessions", "cancel_stream", "create_session", "schedule_wake", "cancel_wake", "list_wakes", "list_harnesses", "inspect_harness", "call_tool", "list_invocations", "put_harness", "remove_harness", "auth", "cancel", "list_running", "tail_logs", "tail_events", "subscribe_prompts", "answer_prompt", "list_approvals", "revoke_approval", "mcp_logs", "upgrade_harness", "extension")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SEND_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    LIST_ACTIVE_CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    KILL_FIELD_NUMBER: _ClassVar[int]
    COMPACT_FIELD_NUMBER: _ClassVar[int]
    LIST_CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    SET_ACTIVE_MODEL_FIELD_NUMBER: _ClassVar[int]
    LIST_MCPS_FIELD_NUMBER: _ClassVar[int]
    LIST_AGENTS_FIELD_NUMBER: _ClassVar[int]
    GET_AGENT_FIELD_NUMBER: _ClassVar[int]
    CREATE_AGENT_FIELD_NUMBER: _ClassVar[int]
    UPDATE_AGENT_FIELD_NUMBER: _ClassVar[int]
    DELETE_AGENT_FIELD_NUMBER: _ClassVar[int]
    LIST_SKILLS_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    GET_CONFIG_FIELD_NUMBER: _ClassVar[int]
    GET_STATS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_EVENTS_FIELD_NUMBER: _ClassVar[int]
    LIST_MODELS_FIELD_NUMBER: _ClassVar[int]
    GET_CONVERSATION_HISTORY_FIELD_NUMBER: _ClassVar[int]
    DELETE_CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_EVENT_FIELD_NUMBER: _ClassVar[int]
    UNSUBSCRIBE_EVENT_FIELD_NUMBER: _ClassVar[int]
    LIST_SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_EVENT_FIELD_NUMBER: _ClassVar[int]
    UPSERT_MCP_FIELD_NUMBER: _ClassVar[int]
    DELETE_MCP_FIELD_NUMBER: _ClassVar[int]
    RENAME_AGENT_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_MCP_EVENTS_FIELD_NUMBER: _ClassVar[int]
    RECONNECT_MCP_FIELD_NUMBER: _ClassVar[int]
    GET_SKILL_FIELD_NUMBER: _ClassVar[int]
    SEARCH_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    CANCEL_STREAM_FIELD_NUMBER: _ClassVar[int]
    CREATE_SESSION_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_WAKE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_WAKE_FIELD_NUMBER: _ClassVar[int]
    LIST_WAKES_FIELD_NUMBER: _ClassVar[int]
    LIST_HARNESSES_FIELD_NUMBER: _ClassVar[int]
    INSPECT_HARNESS_FIELD_NUMBER: _ClassVar[int]
    CALL_TOOL_FIELD_NUMBER: _ClassVar[int]
    LIST_INVOCATIONS_FIELD_NUMBER: _ClassVar[int]
    PUT_HARNESS_FIELD_NUMBER: _ClassVar[int]
    REMOVE_HARNESS_FIELD_NUMBER: _ClassVar[int]
    AUTH_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    LIST_RUNNING_FIELD_NUMBER: _ClassVar[int]
    TAIL_LOGS_FIELD_NUMBER: _ClassVar[int]
    TAIL_EVENTS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_PROMPTS_FIELD_NUMBER: _ClassVar[int]
    ANSWER_PROMPT_FIELD_NUMBER: _ClassVar[int]
    LIST_APPROVALS_FIELD_NUMBER: _ClassVar[int]
    REVOKE_APPROVAL_FIELD_NUMBER: _ClassVar[int]
    MCP_LOGS_FIELD_NUMBER: _ClassVar[int]
    UPGRADE_HARNESS_FIELD_NUMBER: _ClassVar[int]
    EXTENSION_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    send: SendMsg
    stream: StreamMsg
    list_active_conversations: ListActiveConversationsMsg
    kill: KillMsg
    compact: CompactMsg
    list_conversations: ListConversationsMsg
    set_active_model: SetActiveModelMsg
    list_mcps: ListMcpsMsg
    list_agents: ListAgentsMsg
    get_agent: GetAgentMsg
    create_agent: CreateAgentMsg
    update_agent: UpdateAgentMsg
    delete_agent: DeleteAgentMsg
    list_skills: ListSkillsMsg
    ping: PingMsg
    get_config: GetConfigMsg
    get_stats: GetStatsMsg
    subscribe_events: SubscribeEventsMsg
    list_models: ListModelsMsg
    get_conversation_history: GetConversationHistoryMsg
    delete_conversation: DeleteConversationMsg
    subscribe_event: SubscribeEventMsg
    unsubscribe_event: UnsubscribeEventMsg
    list_subscriptions: ListSubscriptionsMsg
    publish_event: PublishEventMsg
    upsert_mcp: UpsertMcpMsg
    delete_mcp: DeleteMcpMsg
    rename_agent: RenameAgentMsg
    subscribe_mcp_events: SubscribeMcpEventsMsg
    reconnect_mcp: ReconnectMcpMsg
    get_skill: GetSkillMsg
    search_sessions: SearchSessionsMsg
    cancel_stream: CancelStreamMsg
    create_session: CreateSessionMsg
    schedule_wake: ScheduleWakeMsg
    cancel_wake: CancelWakeMsg
    list_wakes: ListWakesMsg
    list_harnesses: ListHarnessesMsg
    inspect_harness: InspectHarnessMsg
    call_tool: CallToolMsg
    list_invocations: ListInvocationsMsg
    put_harness: PutHarnessMsg
    remove_harness: RemoveHarnessMsg
    auth: AuthMsg
    cancel: CancelMsg
    list_running: ListRunningMsg
    tail_logs: TailLogsMsg
    tail_events: TailEventsMsg
    subscribe_prompts: SubscribePromptsMsg
    answer_prompt: AnswerPromptMsg
    list_approvals: ListApprovalsMsg
    revoke_approval: RevokeApprovalMsg
    mcp_logs: McpLogsMsg
    upgrade_harness: UpgradeHarnessMsg
    extension: bytes
    def __init__(self, request_id: _Optional[int] = ..., send: _Optional[_Union[SendMsg, _Mapping]] = ..., stream: _Optional[_Union[StreamMsg, _Mapping]] = ..., list_active_conversations: _Optional[_Union[ListActiveConversationsMsg, _Mapping]] = ..., kill: _Optional[_Union[KillMsg, _Mapping]] = ..., compact: _Optional[_Union[CompactMsg, _Mapping]] = ..., list_conversations: _Optional[_Union[ListConversationsMsg, _Mapping]] = ..., set_active_model: _Optional[_Union[SetActiveModelMsg, _Mapping]] = ..., list_mcps: _Optional[_Union[ListMcpsMsg, _Mapping]] = ..., list_agents: _Optional[_Union[ListAgentsMsg, _Mapping]] = ..., get_agent: _Optional[_Union[GetAgentMsg, _Mapping]] = ..., create_agent: _Optional[_Union[CreateAgentMsg, _Mapping]] = ..., update_agent: _Optional[_Union[UpdateAgentMsg, _Mapping]] = ..., delete_agent: _Optional[_Union[DeleteAgentMsg, _Mapping]] = ..., list_skills: _Optional[_Union[ListSkillsMsg, _Mapping]] = ..., ping: _Optional[_Union[PingMsg, _Mapping]] = ..., get_config: _Optional[_Union[GetConfigMsg, _Mapping]] = ..., get_stats: _Optional[_Union[GetStatsMsg, _Mapping]] = ..., subscribe_events: _Optional[_Union[SubscribeEventsMsg, _Mapping]] = ..., list_models: _Optional[_Union[ListModelsMsg, _Mapping]] = ..., get_conversation_history: _Optional[_Union[GetConversationHistoryMsg, _Mapping]] = ..., delete_conversation: _Optional[_Union[DeleteConversationMsg, _Mapping]] = ..., subscribe_event: _Optional[_Union[SubscribeEventMsg, _Mapping]] = ..., unsubscribe_event: _Optional[_Union[UnsubscribeEventMsg, _Mapping]] = ..., list_subscriptions: _Optional[_Union[ListSubscriptionsMsg, _Mapping]] = ..., publish_event: _Optional[_Union[PublishEventMsg, _Mapping]] = ..., upsert_mcp: _Optional[_Union[UpsertMcpMsg, _Mapping]] = ..., delete_mcp: _Optional[_Union[DeleteMcpMsg, _Mapping]] = ..., rename_agent: _Optional[_Union[RenameAgentMsg, _Mapping]] = ..., subscribe_mcp_events: _Optional[_Union[SubscribeMcpEventsMsg, _Mapping]] = ..., reconnect_mcp: _Optional[_Union[ReconnectMcpMsg, _Mapping]] = ..., get_skill: _Optional[_Union[GetSkillMsg, _Mapping]] = ..., search_sessions: _Optional[_Union[SearchSessionsMsg, _Mapping]] = ..., cancel_stream: _Optional[_Union[CancelStreamMsg, _Mapping]] = ..., create_session: _Optional[_Union[CreateSessionMsg, _Mapping]] = ..., schedule_wake: _Optional[_Union[ScheduleWakeMsg, _Mapping]] = ..., cancel_wake: _Optional[_Union[CancelWakeMsg, _Mapping]] = ..., list_wakes: _Optional[_Union[ListWakesMsg, _Mapping]] = ..., list_harnesses: _Optional[_Union[ListHarnessesMsg, _Mapping]] = ..., inspect_harness: _Optional[_Union[InspectHarnessMsg, _Mapping]] = ..., call_tool: _Optional[_Union[CallToolMsg, _Mapping]] = ..., list_invocations: _Optional[_Union[ListInvocationsMsg, _Mapping]] = ..., put_harness: _Optional[_Union[PutHarnessMsg, _Mapping]] = ..., remove_harness: _Optional[_Union[RemoveHarnessMsg, _Mapping]] = ..., auth: _Optional[_Union[AuthMsg, _Mapping]] = ..., cancel: _Optional[_Union[CancelMsg, _Mapping]] = ..., list_running: _Optional[_Union[ListRunningMsg, _Mapping]] = ..., tail_logs: _Optional[_Union[TailLogsMsg, _Mapping]] = ..., tail_events: _Optional[_Union[TailEventsMsg, _Mapping]] = ..., subscribe_prompts: _Optional[_Union[SubscribePromptsMsg, _Mapping]] = ..., answer_prompt: _Optional[_Union[AnswerPromptMsg, _Mapping]] = ..., list_approvals: _Optional[_Union[ListApprovalsMsg, _Mapping]] = ..., revoke_approval: _Optional[_Union[RevokeApprovalMsg, _Mapping]] = ..., mcp_logs: _Optional[_Union[McpLogsMsg, _Mapping]] = ..., upgrade_harness: _Optional[_Union[UpgradeHarnessMsg, _Mapping]] = ..., extension: _Optional[bytes] = ...) -> None: ...

class ServerMessage(_message.Message):
    __slots__ = ("request_id", "error", "pong", "response", "stream", "active_conversations", "compact", "conversation_list", "mcp_list", "agent_info", "agent_list", "skill_list", "config", "stats", "agent_event", "model_list", "conversation_history", "subscription_info", "subscription_list", "mcp_info", "mcp_event", "skill_body", "session_hits", "wake_info", "wake_list", "harness_list", "harness_info", "tool_outcome", "invocation_list", "running_list", "log_line", "bus_event", "prompt", "approval_list", "extension")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    COMPACT_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_LIST_FIELD_NUMBER: _ClassVar[int]
    MCP_LIST_FIELD_NUMBER: _ClassVar[int]
    AGENT_INFO_FIELD_NUMBER: _ClassVar[int]
    AGENT_LIST_FIELD_NUMBER: _ClassVar[int]
    SKILL_LIST_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    AGENT_EVENT_FIELD_NUMBER: _ClassVar[int]
    MODEL_LIST_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_HISTORY_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_INFO_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_LIST_FIELD_NUMBER: _ClassVar[int]
    MCP_INFO_FIELD_NUMBER: _ClassVar[int]
    MCP_EVENT_FIELD_NUMBER: _ClassVar[int]
    SKILL_BODY_FIELD_NUMBER: _ClassVar[int]
    SESSION_HITS_FIELD_NUMBER: _ClassVar[int]
    WAKE_INFO_FIELD_NUMBER: _ClassVar[int]
    WAKE_LIST_FIELD_NUMBER: _ClassVar[int]
    HARNESS_LIST_FIELD_NUMBER: _ClassVar[int]
    HARNESS_INFO_FIELD_NUMBER: _ClassVar[int]
    TOOL_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    INVOCATION_LIST_FIELD_NUMBER: _ClassVar[int]
    RUNNING_LIST_FIELD_NUMBER: _ClassVar[int]
    LOG_LINE_FIELD_NUMBER: _ClassVar[int]
    BUS_EVENT_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_LIST_FIELD_NUMBER: _ClassVar[int]
    EXTENSION_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    error: ErrorMsg
    pong: Pong
    response: SendResponse
    stream: StreamEvent
    active_conversations: ActiveConversationList
    compact: CompactResponse
    conversation_list: ConversationList
    mcp_list: McpList
    agent_info: AgentInfo
    agent_list: AgentList
    skill_list: SkillList
    config: ConfigMsg
    stats: Stats
    agent_event: AgentEventMsg
    model_list: ModelList
    conversation_history: ConversationHistory
    subscription_info: SubscriptionInfo
    subscription_list: SubscriptionList
    mcp_info: McpInfo
    mcp_event: McpEventMsg
    skill_body: SkillBody
    session_hits: SessionHitList
    wake_info: WakeInfo
    wake_list: WakeList
    harness_list: HarnessList
    harness_info: HarnessInfo
    tool_outcome: ToolOutcome
    invocation_list: InvocationList
    running_list: RunningList
    log_line: LogLine
    bus_event: BusEvent
    prompt: Prompt
    approval_list: ApprovalList
    extension: bytes
    def __init__(self, request_id: _Optional[int] = ..., error: _Optional[_Union[ErrorMsg, _Mapping]] = ..., pong: _Optional[_Union[Pong, _Mapping]] = ..., response: _Optional[_Union[SendResponse, _Mapping]] = ..., stream: _Optional[_Union[StreamEvent, _Mapping]] = ..., active_conversations: _Optional[_Union[ActiveConversationList, _Mapping]] = ..., compact: _Optional[_Union[CompactResponse, _Mapping]] = ..., conversation_list: _Optional[_Union[ConversationList, _Mapping]] = ..., mcp_list: _Optional[_Union[McpList, _Mapping]] = ..., agent_info: _Optional[_Union[AgentInfo, _Mapping]] = ..., agent_list: _Optional[_Union[AgentList, _Mapping]] = ..., skill_list: _Optional[_Union[SkillList, _Mapping]] = ..., config: _Optional[_Union[ConfigMsg, _Mapping]] = ..., stats: _Optional[_Union[Stats, _Mapping]] = ..., agent_event: _Optional[_Union[AgentEventMsg, _Mapping]] = ..., model_list: _Optional[_Union[ModelList, _Mapping]] = ..., conversation_history: _Optional[_Union[ConversationHistory, _Mapping]] = ..., subscription_info: _Optional[_Union[SubscriptionInfo, _Mapping]] = ..., subscription_list: _Optional[_Union[SubscriptionList, _Mapping]] = ..., mcp_info: _Optional[_Union[McpInfo, _Mapping]] = ..., mcp_event: _Optional[_Union[McpEventMsg, _Mapping]] = ..., skill_body: _Optional[_Union[SkillBody, _Mapping]] = ..., session_hits: _Optional[_Union[SessionHitList, _Mapping]] = ..., wake_info: _Optional[_Union[WakeInfo, _Mapping]] = ..., wake_list: _Optional[_Union[WakeList, _Mapping]] = ..., harness_list: _Optional[_Union[HarnessList, _Mapping]] = ..., harness_info: _Optional[_Union[HarnessInfo, _Mapping]] = ..., tool_outcome: _Optional[_Union[ToolOutcome, _Mapping]] = ..., invocation_list: _Optional[_Union[InvocationList, _Mapping]] = ..., running_list: _Optional[_Union[RunningList, _Mapping]] = ..., log_line: _Optional[_Union[LogLine, _Mapping]] = ..., bus_event: _Optional[_Union[BusEvent, _Mapping]] = ..., prompt: _Optional[_Union[Prompt, _Mapping]] = ..., approval_list: _Optional[_Union[ApprovalList, _Mapping]] = ..., extension: _Optional[bytes] = ...) -> None: ...

class SendMsg(_message.Message):
    __slots__ = ("agent", "content", "sender", "tool_choice", "session_handle")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TOOL_CHOICE_FIELD_NUMBER: _ClassVar[int]
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    agent: str
    content: str
    sender: str
    tool_choice: str
    session_handle: str
    def __init__(self, agent: _Optional[str] = ..., content: _Optional[str] = ..., sender: _Optional[str] = ..., tool_choice: _Optional[str] = ..., session_handle: _Optional[str] = ...) -> None: ...

class StreamMsg(_message.Message):
    __slots__ = ("agent", "content", "sender", "guest", "tool_choice", "ephemeral", "correlation_id", "session_handle")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    GUEST_FIELD_NUMBER: _ClassVar[int]
    TOOL_CHOICE_FIELD_NUMBER: _ClassVar[int]
    EPHEMERAL_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    agent: str
    content: str
    sender: str
    guest: str
    tool_choice: str
    ephemeral: bool
    correlation_id: int
    session_handle: str
    def __init__(self, agent: _Optional[str] = ..., content: _Optional[str] = ..., sender: _Optional[str] = ..., guest: _Optional[str] = ..., tool_choice: _Optional[str] = ..., ephemeral: bool = ..., correlation_id: _Optional[int] = ..., session_handle: _Optional[str] = ...) -> None: ...

class ListActiveConversationsMsg(_message.Message):
    __slots__ = ("agent", "sender")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ...) -> None: ...

class KillMsg(_message.Message):
    __slots__ = ("session_handle",)
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    session_handle: str
    def __init__(self, session_handle: _Optional[str] = ...) -> None: ...

class CompactMsg(_message.Message):
    __slots__ = ("prompt", "session_handle")
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    prompt: str
    session_handle: str
    def __init__(self, prompt: _Optional[str] = ..., session_handle: _Optional[str] = ...) -> None: ...

class ListConversationsMsg(_message.Message):
    __slots__ = ("agent", "sender")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ...) -> None: ...

class SetActiveModelMsg(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: str
    def __init__(self, model: _Optional[str] = ...) -> None: ...

class ListMcpsMsg(_message.Message):
    __slots__ = ("agent",)
    AGENT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    def __init__(self, agent: _Optional[str] = ...) -> None: ...

class ListAgentsMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetAgentMsg(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class CreateAgentMsg(_message.Message):
    __slots__ = ("name", "config")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    name: str
    config: str
    def __init__(self, name: _Optional[str] = ..., config: _Optional[str] = ...) -> None: ...

class UpdateAgentMsg(_message.Message):
    __slots__ = ("config", "agent")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    config: str
    agent: str
    def __init__(self, config: _Optional[str] = ..., agent: _Optional[str] = ...) -> None: ...

class DeleteAgentMsg(_message.Message):
    __slots__ = ("agent",)
    AGENT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    def __init__(self, agent: _Optional[str] = ...) -> None: ...

class ListSkillsMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PingMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetConfigMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatsMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SubscribeEventsMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListModelsMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetConversationHistoryMsg(_message.Message):
    __slots__ = ("file_path",)
    FILE_PATH_FIELD_NUMBER: _ClassVar[int]
    file_path: str
    def __init__(self, file_path: _Optional[str] = ...) -> None: ...

class DeleteConversationMsg(_message.Message):
    __slots__ = ("file_path",)
    FILE_PATH_FIELD_NUMBER: _ClassVar[int]
    file_path: str
    def __init__(self, file_path: _Optional[str] = ...) -> None: ...

class SubscribeEventMsg(_message.Message):
    __slots__ = ("source", "target_agent", "once", "target_harness")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_AGENT_FIELD_NUMBER: _ClassVar[int]
    ONCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_HARNESS_FIELD_NUMBER: _ClassVar[int]
    source: str
    target_agent: str
    once: bool
    target_harness: str
    def __init__(self, source: _Optional[str] = ..., target_agent: _Optional[str] = ..., once: bool = ..., target_harness: _Optional[str] = ...) -> None: ...

class UnsubscribeEventMsg(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class ListSubscriptionsMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PublishEventMsg(_message.Message):
    __slots__ = ("source", "payload")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    source: str
    payload: str
    def __init__(self, source: _Optional[str] = ..., payload: _Optional[str] = ...) -> None: ...

class UpsertMcpMsg(_message.Message):
    __slots__ = ("config", "agent")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    config: str
    agent: str
    def __init__(self, config: _Optional[str] = ..., agent: _Optional[str] = ...) -> None: ...

class DeleteMcpMsg(_message.Message):
    __slots__ = ("name", "agent")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    agent: str
    def __init__(self, name: _Optional[str] = ..., agent: _Optional[str] = ...) -> None: ...

class RenameAgentMsg(_message.Message):
    __slots__ = ("new_name", "agent")
    NEW_NAME_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    new_name: str
    agent: str
    def __init__(self, new_name: _Optional[str] = ..., agent: _Optional[str] = ...) -> None: ...

class SubscribeMcpEventsMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReconnectMcpMsg(_message.Message):
    __slots__ = ("name", "agent")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    agent: str
    def __init__(self, name: _Optional[str] = ..., agent: _Optional[str] = ...) -> None: ...

class GetSkillMsg(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class SearchSessionsMsg(_message.Message):
    __slots__ = ("query", "limit", "context_before", "context_after", "agent", "sender")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_AFTER_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    query: str
    limit: int
    context_before: int
    context_after: int
    agent: str
    sender: str
    def __init__(self, query: _Optional[str] = ..., limit: _Optional[int] = ..., context_before: _Optional[int] = ..., context_after: _Optional[int] = ..., agent: _Optional[str] = ..., sender: _Optional[str] = ...) -> None: ...

class CancelStreamMsg(_message.Message):
    __slots__ = ("session_handle",)
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    session_handle: str
    def __init__(self, session_handle: _Optional[str] = ...) -> None: ...

class CreateSessionMsg(_message.Message):
    __slots__ = ("session_handle", "agent", "sender", "root")
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    session_handle: str
    agent: str
    sender: str
    root: str
    def __init__(self, session_handle: _Optional[str] = ..., agent: _Optional[str] = ..., sender: _Optional[str] = ..., root: _Optional[str] = ...) -> None: ...

class ScheduleWakeMsg(_message.Message):
    __slots__ = ("agent", "harness", "at_ms", "payload", "key")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    HARNESS_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    agent: str
    harness: str
    at_ms: int
    payload: bytes
    key: str
    def __init__(self, agent: _Optional[str] = ..., harness: _Optional[str] = ..., at_ms: _Optional[int] = ..., payload: _Optional[bytes] = ..., key: _Optional[str] = ...) -> None: ...

class CancelWakeMsg(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class ListWakesMsg(_message.Message):
    __slots__ = ("agent", "harness")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    HARNESS_FIELD_NUMBER: _ClassVar[int]
    agent: str
    harness: str
    def __init__(self, agent: _Optional[str] = ..., harness: _Optional[str] = ...) -> None: ...

class ListHarnessesMsg(_message.Message):
    __slots__ = ("agent",)
    AGENT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    def __init__(self, agent: _Optional[str] = ...) -> None: ...

class InspectHarnessMsg(_message.Message):
    __slots__ = ("digest", "agent", "name")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    digest: str
    agent: str
    name: str
    def __init__(self, digest: _Optional[str] = ..., agent: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class CallToolMsg(_message.Message):
    __slots__ = ("agent", "harness", "tool", "args", "session_handle", "deadline_ms")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    HARNESS_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    agent: str
    harness: str
    tool: str
    args: bytes
    session_handle: str
    deadline_ms: int
    def __init__(self, agent: _Optional[str] = ..., harness: _Optional[str] = ..., tool: _Optional[str] = ..., args: _Optional[bytes] = ..., session_handle: _Optional[str] = ..., deadline_ms: _Optional[int] = ...) -> None: ...

class ListInvocationsMsg(_message.Message):
    __slots__ = ("since_ms", "limit", "harness")
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    HARNESS_FIELD_NUMBER: _ClassVar[int]
    since_ms: int
    limit: int
    harness: str
    def __init__(self, since_ms: _Optional[int] = ..., limit: _Optional[int] = ..., harness: _Optional[str] = ...) -> None: ...

class PutHarnessMsg(_message.Message):
    __slots__ = ("name", "elf", "sha256")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ELF_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    name: str
    elf: bytes
    sha256: str
    def __init__(self, name: _Optional[str] = ..., elf: _Optional[bytes] = ..., sha256: _Optional[str] = ...) -> None: ...

class RemoveHarnessMsg(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class AuthMsg(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class CancelMsg(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    def __init__(self, request_id: _Optional[int] = ...) -> None: ...

class ListRunningMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TailLogsMsg(_message.Message):
    __slots__ = ("level",)
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    level: str
    def __init__(self, level: _Optional[str] = ...) -> None: ...

class TailEventsMsg(_message.Message):
    __slots__ = ("source",)
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    source: str
    def __init__(self, source: _Optional[str] = ...) -> None: ...

class SubscribePromptsMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AnswerPromptMsg(_message.Message):
    __slots__ = ("id", "allow", "scope", "text")
    ID_FIELD_NUMBER: _ClassVar[int]
    ALLOW_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    id: str
    allow: bool
    scope: str
    text: str
    def __init__(self, id: _Optional[str] = ..., allow: bool = ..., scope: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class ListApprovalsMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RevokeApprovalMsg(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class McpLogsMsg(_message.Message):
    __slots__ = ("agent", "name")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    agent: str
    name: str
    def __init__(self, agent: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class UpgradeHarnessMsg(_message.Message):
    __slots__ = ("agent", "name", "sha256", "confirm")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    agent: str
    name: str
    sha256: str
    confirm: bool
    def __init__(self, agent: _Optional[str] = ..., name: _Optional[str] = ..., sha256: _Optional[str] = ..., confirm: bool = ...) -> None: ...

class ErrorMsg(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class Pong(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SendResponse(_message.Message):
    __slots__ = ("agent", "content", "model", "usage")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    agent: str
    content: str
    model: str
    usage: TokenUsage
    def __init__(self, agent: _Optional[str] = ..., content: _Optional[str] = ..., model: _Optional[str] = ..., usage: _Optional[_Union[TokenUsage, _Mapping]] = ...) -> None: ...

class TokenUsage(_message.Message):
    __slots__ = ("prompt", "completion", "total", "cache_hit", "cache_miss", "reasoning")
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    CACHE_HIT_FIELD_NUMBER: _ClassVar[int]
    CACHE_MISS_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    prompt: int
    completion: int
    total: int
    cache_hit: int
    cache_miss: int
    reasoning: int
    def __init__(self, prompt: _Optional[int] = ..., completion: _Optional[int] = ..., total: _Optional[int] = ..., cache_hit: _Optional[int] = ..., cache_miss: _Optional[int] = ..., reasoning: _Optional[int] = ...) -> None: ...

class StreamEvent(_message.Message):
    __slots__ = ("start", "chunk", "thinking", "tool_start", "tool_result", "tools_complete", "end", "text_start", "text_end", "thinking_start", "thinking_end", "context_usage")
    START_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    THINKING_FIELD_NUMBER: _ClassVar[int]
    TOOL_START_FIELD_NUMBER: _ClassVar[int]
    TOOL_RESULT_FIELD_NUMBER: _ClassVar[int]
    TOOLS_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TEXT_START_FIELD_NUMBER: _ClassVar[int]
    TEXT_END_FIELD_NUMBER: _ClassVar[int]
    THINKING_START_FIELD_NUMBER: _ClassVar[int]
    THINKING_END_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_USAGE_FIELD_NUMBER: _ClassVar[int]
    start: StreamStart
    chunk: StreamChunk
    thinking: StreamThinking
    tool_start: ToolStartEvent
    tool_result: ToolResultEvent
    tools_complete: ToolsCompleteEvent
    end: StreamEnd
    text_start: TextStartEvent
    text_end: TextEndEvent
    thinking_start: ThinkingStartEvent
    thinking_end: ThinkingEndEvent
    context_usage: ContextUsageEvent
    def __init__(self, start: _Optional[_Union[StreamStart, _Mapping]] = ..., chunk: _Optional[_Union[StreamChunk, _Mapping]] = ..., thinking: _Optional[_Union[StreamThinking, _Mapping]] = ..., tool_start: _Optional[_Union[ToolStartEvent, _Mapping]] = ..., tool_result: _Optional[_Union[ToolResultEvent, _Mapping]] = ..., tools_complete: _Optional[_Union[ToolsCompleteEvent, _Mapping]] = ..., end: _Optional[_Union[StreamEnd, _Mapping]] = ..., text_start: _Optional[_Union[TextStartEvent, _Mapping]] = ..., text_end: _Optional[_Union[TextEndEvent, _Mapping]] = ..., thinking_start: _Optional[_Union[ThinkingStartEvent, _Mapping]] = ..., thinking_end: _Optional[_Union[ThinkingEndEvent, _Mapping]] = ..., context_usage: _Optional[_Union[ContextUsageEvent, _Mapping]] = ...) -> None: ...

class StreamStart(_message.Message):
    __slots__ = ("agent",)
    AGENT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    def __init__(self, agent: _Optional[str] = ...) -> None: ...

class StreamChunk(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: str
    def __init__(self, content: _Optional[str] = ...) -> None: ...

class StreamThinking(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: str
    def __init__(self, content: _Optional[str] = ...) -> None: ...

class ToolCallInfo(_message.Message):
    __slots__ = ("name", "arguments", "id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    arguments: str
    id: str
    def __init__(self, name: _Optional[str] = ..., arguments: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class ToolStartEvent(_message.Message):
    __slots__ = ("calls",)
    CALLS_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[ToolCallInfo]
    def __init__(self, calls: _Optional[_Iterable[_Union[ToolCallInfo, _Mapping]]] = ...) -> None: ...

class ToolResultEvent(_message.Message):
    __slots__ = ("call_id", "output", "duration_ms", "is_error")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    output: str
    duration_ms: int
    is_error: bool
    def __init__(self, call_id: _Optional[str] = ..., output: _Optional[str] = ..., duration_ms: _Optional[int] = ..., is_error: bool = ...) -> None: ...

class ToolsCompleteEvent(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StreamEnd(_message.Message):
    __slots__ = ("agent", "error", "model", "usage")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    agent: str
    error: str
    model: str
    usage: TokenUsage
    def __init__(self, agent: _Optional[str] = ..., error: _Optional[str] = ..., model: _Optional[str] = ..., usage: _Optional[_Union[TokenUsage, _Mapping]] = ...) -> None: ...

class TextStartEvent(_message.Message):
    __slots__ = ("agent",)
    AGENT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    def __init__(self, agent: _Optional[str] = ...) -> None: ...

class TextEndEvent(_message.Message):
    __slots__ = ("agent",)
    AGENT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    def __init__(self, agent: _Optional[str] = ...) -> None: ...

class ThinkingStartEvent(_message.Message):
    __slots__ = ("agent",)
    AGENT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    def __init__(self, agent: _Optional[str] = ...) -> None: ...

class ThinkingEndEvent(_message.Message):
    __slots__ = ("agent",)
    AGENT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    def __init__(self, agent: _Optional[str] = ...) -> None: ...

class ContextUsageEvent(_message.Message):
    __slots__ = ("usage",)
    USAGE_FIELD_NUMBER: _ClassVar[int]
    usage: TokenUsage
    def __init__(self, usage: _Optional[_Union[TokenUsage, _Mapping]] = ...) -> None: ...

class ActiveConversationInfo(_message.Message):
    __slots__ = ("sender", "message_count", "alive_secs", "title", "agent_id", "agent_name", "session_handle")
    SENDER_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    ALIVE_SECS_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_NAME_FIELD_NUMBER: _ClassVar[int]
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    sender: str
    message_count: int
    alive_secs: int
    title: str
    agent_id: str
    agent_name: str
    session_handle: str
    def __init__(self, sender: _Optional[str] = ..., message_count: _Optional[int] = ..., alive_secs: _Optional[int] = ..., title: _Optional[str] = ..., agent_id: _Optional[str] = ..., agent_name: _Optional[str] = ..., session_handle: _Optional[str] = ...) -> None: ...

class ActiveConversationList(_message.Message):
    __slots__ = ("conversations",)
    CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    conversations: _containers.RepeatedCompositeFieldContainer[ActiveConversationInfo]
    def __init__(self, conversations: _Optional[_Iterable[_Union[ActiveConversationInfo, _Mapping]]] = ...) -> None: ...

class CompactResponse(_message.Message):
    __slots__ = ("summary",)
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    summary: str
    def __init__(self, summary: _Optional[str] = ...) -> None: ...

class ConversationInfo(_message.Message):
    __slots__ = ("sender", "seq", "title", "file_path", "message_count", "alive_secs", "date", "agent_id", "agent_name")
    SENDER_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    FILE_PATH_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    ALIVE_SECS_FIELD_NUMBER: _ClassVar[int]
    DATE_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_NAME_FIELD_NUMBER: _ClassVar[int]
    sender: str
    seq: int
    title: str
    file_path: str
    message_count: int
    alive_secs: int
    date: str
    agent_id: str
    agent_name: str
    def __init__(self, sender: _Optional[str] = ..., seq: _Optional[int] = ..., title: _Optional[str] = ..., file_path: _Optional[str] = ..., message_count: _Optional[int] = ..., alive_secs: _Optional[int] = ..., date: _Optional[str] = ..., agent_id: _Optional[str] = ..., agent_name: _Optional[str] = ...) -> None: ...

class ConversationList(_message.Message):
    __slots__ = ("conversations",)
    CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    conversations: _containers.RepeatedCompositeFieldContainer[ConversationInfo]
    def __init__(self, conversations: _Optional[_Iterable[_Union[ConversationInfo, _Mapping]]] = ...) -> None: ...

class ConversationMessage(_message.Message):
    __slots__ = ("role", "content")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    role: str
    content: str
    def __init__(self, role: _Optional[str] = ..., content: _Optional[str] = ...) -> None: ...

class ConversationHistory(_message.Message):
    __slots__ = ("messages", "title", "agent_id", "agent_name")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_NAME_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[ConversationMessage]
    title: str
    agent_id: str
    agent_name: str
    def __init__(self, messages: _Optional[_Iterable[_Union[ConversationMessage, _Mapping]]] = ..., title: _Optional[str] = ..., agent_id: _Optional[str] = ..., agent_name: _Optional[str] = ...) -> None: ...

class AgentInfo(_message.Message):
    __slots__ = ("name", "description", "config", "model", "max_iterations", "thinking", "skills", "mcps", "compact_tool_max_len", "id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MAX_ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    THINKING_FIELD_NUMBER: _ClassVar[int]
    SKILLS_FIELD_NUMBER: _ClassVar[int]
    MCPS_FIELD_NUMBER: _ClassVar[int]
    COMPACT_TOOL_MAX_LEN_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    config: str
    model: str
    max_iterations: int
    thinking: bool
    skills: _containers.RepeatedScalarFieldContainer[str]
    mcps: _containers.RepeatedScalarFieldContainer[str]
    compact_tool_max_len: int
    id: str
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., config: _Optional[str] = ..., model: _Optional[str] = ..., max_iterations: _Optional[int] = ..., thinking: bool = ..., skills: _Optional[_Iterable[str]] = ..., mcps: _Optional[_Iterable[str]] = ..., compact_tool_max_len: _Optional[int] = ..., id: _Optional[str] = ...) -> None: ...

class AgentList(_message.Message):
    __slots__ = ("agents",)
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    agents: _containers.RepeatedCompositeFieldContainer[AgentInfo]
    def __init__(self, agents: _Optional[_Iterable[_Union[AgentInfo, _Mapping]]] = ...) -> None: ...

class SkillInfo(_message.Message):
    __slots__ = ("name", "description")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...

class SkillList(_message.Message):
    __slots__ = ("skills",)
    SKILLS_FIELD_NUMBER: _ClassVar[int]
    skills: _containers.RepeatedCompositeFieldContainer[SkillInfo]
    def __init__(self, skills: _Optional[_Iterable[_Union[SkillInfo, _Mapping]]] = ...) -> None: ...

class SkillBody(_message.Message):
    __slots__ = ("name", "body")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    name: str
    body: str
    def __init__(self, name: _Optional[str] = ..., body: _Optional[str] = ...) -> None: ...

class ConfigMsg(_message.Message):
    __slots__ = ("config",)
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    config: str
    def __init__(self, config: _Optional[str] = ...) -> None: ...

class Stats(_message.Message):
    __slots__ = ("uptime_secs", "active_conversations", "registered_agents", "active_model", "version", "queue_depth", "running", "pending_wakes", "spilled", "blocked_wakes")
    UPTIME_SECS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_AGENTS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    QUEUE_DEPTH_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    PENDING_WAKES_FIELD_NUMBER: _ClassVar[int]
    SPILLED_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_WAKES_FIELD_NUMBER: _ClassVar[int]
    uptime_secs: int
    active_conversations: int
    registered_agents: int
    active_model: str
    version: str
    queue_depth: int
    running: int
    pending_wakes: int
    spilled: int
    blocked_wakes: int
    def __init__(self, uptime_secs: _Optional[int] = ..., active_conversations: _Optional[int] = ..., registered_agents: _Optional[int] = ..., active_model: _Optional[str] = ..., version: _Optional[str] = ..., queue_depth: _Optional[int] = ..., running: _Optional[int] = ..., pending_wakes: _Optional[int] = ..., spilled: _Optional[int] = ..., blocked_wakes: _Optional[int] = ...) -> None: ...

class AgentEventMsg(_message.Message):
    __slots__ = ("agent", "sender", "kind", "content", "timestamp", "tool_calls", "tool_output", "tool_is_error", "ephemeral")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    TOOL_IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    EPHEMERAL_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    kind: AgentEventKind
    content: str
    timestamp: str
    tool_calls: _containers.RepeatedCompositeFieldContainer[ToolCallInfo]
    tool_output: str
    tool_is_error: bool
    ephemeral: bool
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., kind: _Optional[_Union[AgentEventKind, str]] = ..., content: _Optional[str] = ..., timestamp: _Optional[str] = ..., tool_calls: _Optional[_Iterable[_Union[ToolCallInfo, _Mapping]]] = ..., tool_output: _Optional[str] = ..., tool_is_error: bool = ..., ephemeral: bool = ...) -> None: ...

class ModelInfo(_message.Message):
    __slots__ = ("name", "active")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    name: str
    active: bool
    def __init__(self, name: _Optional[str] = ..., active: bool = ...) -> None: ...

class ModelList(_message.Message):
    __slots__ = ("models",)
    MODELS_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[ModelInfo]
    def __init__(self, models: _Optional[_Iterable[_Union[ModelInfo, _Mapping]]] = ...) -> None: ...

class SubscriptionInfo(_message.Message):
    __slots__ = ("id", "source", "target_agent", "once", "target_harness")
    ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_AGENT_FIELD_NUMBER: _ClassVar[int]
    ONCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_HARNESS_FIELD_NUMBER: _ClassVar[int]
    id: int
    source: str
    target_agent: str
    once: bool
    target_harness: str
    def __init__(self, id: _Optional[int] = ..., source: _Optional[str] = ..., target_agent: _Optional[str] = ..., once: bool = ..., target_harness: _Optional[str] = ...) -> None: ...

class SubscriptionList(_message.Message):
    __slots__ = ("subscriptions",)
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    subscriptions: _containers.RepeatedCompositeFieldContainer[SubscriptionInfo]
    def __init__(self, subscriptions: _Optional[_Iterable[_Union[SubscriptionInfo, _Mapping]]] = ...) -> None: ...

class McpInfo(_message.Message):
    __slots__ = ("name", "command", "args", "env", "url", "auth", "source", "auto_restart", "source_kind", "status", "error", "tool_count")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    AUTH_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    AUTO_RESTART_FIELD_NUMBER: _ClassVar[int]
    SOURCE_KIND_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOOL_COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    command: str
    args: _containers.RepeatedScalarFieldContainer[str]
    env: _containers.ScalarMap[str, str]
    url: str
    auth: str
    source: str
    auto_restart: bool
    source_kind: SourceKind
    status: McpStatus
    error: str
    tool_count: int
    def __init__(self, name: _Optional[str] = ..., command: _Optional[str] = ..., args: _Optional[_Iterable[str]] = ..., env: _Optional[_Mapping[str, str]] = ..., url: _Optional[str] = ..., auth: _Optional[str] = ..., source: _Optional[str] = ..., auto_restart: bool = ..., source_kind: _Optional[_Union[SourceKind, str]] = ..., status: _Optional[_Union[McpStatus, str]] = ..., error: _Optional[str] = ..., tool_count: _Optional[int] = ...) -> None: ...

class McpList(_message.Message):
    __slots__ = ("mcps",)
    MCPS_FIELD_NUMBER: _ClassVar[int]
    mcps: _containers.RepeatedCompositeFieldContainer[McpInfo]
    def __init__(self, mcps: _Optional[_Iterable[_Union[McpInfo, _Mapping]]] = ...) -> None: ...

class McpEventMsg(_message.Message):
    __slots__ = ("kind", "name", "tools", "error", "timestamp", "agent")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    kind: McpEventKind
    name: str
    tools: _containers.RepeatedScalarFieldContainer[str]
    error: str
    timestamp: str
    agent: str
    def __init__(self, kind: _Optional[_Union[McpEventKind, str]] = ..., name: _Optional[str] = ..., tools: _Optional[_Iterable[str]] = ..., error: _Optional[str] = ..., timestamp: _Optional[str] = ..., agent: _Optional[str] = ...) -> None: ...

class SessionWindowItem(_message.Message):
    __slots__ = ("role", "msg_idx", "snippet", "truncated", "tool_name")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    MSG_IDX_FIELD_NUMBER: _ClassVar[int]
    SNIPPET_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    role: str
    msg_idx: int
    snippet: str
    truncated: bool
    tool_name: str
    def __init__(self, role: _Optional[str] = ..., msg_idx: _Optional[int] = ..., snippet: _Optional[str] = ..., truncated: bool = ..., tool_name: _Optional[str] = ...) -> None: ...

class SessionHit(_message.Message):
    __slots__ = ("session_handle", "msg_idx", "score", "title", "sender", "created_at", "updated_at", "window", "agent_id", "agent_name")
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    MSG_IDX_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_NAME_FIELD_NUMBER: _ClassVar[int]
    session_handle: str
    msg_idx: int
    score: float
    title: str
    sender: str
    created_at: str
    updated_at: str
    window: _containers.RepeatedCompositeFieldContainer[SessionWindowItem]
    agent_id: str
    agent_name: str
    def __init__(self, session_handle: _Optional[str] = ..., msg_idx: _Optional[int] = ..., score: _Optional[float] = ..., title: _Optional[str] = ..., sender: _Optional[str] = ..., created_at: _Optional[str] = ..., updated_at: _Optional[str] = ..., window: _Optional[_Iterable[_Union[SessionWindowItem, _Mapping]]] = ..., agent_id: _Optional[str] = ..., agent_name: _Optional[str] = ...) -> None: ...

class SessionHitList(_message.Message):
    __slots__ = ("hits",)
    HITS_FIELD_NUMBER: _ClassVar[int]
    hits: _containers.RepeatedCompositeFieldContainer[SessionHit]
    def __init__(self, hits: _Optional[_Iterable[_Union[SessionHit, _Mapping]]] = ...) -> None: ...

class WakeInfo(_message.Message):
    __slots__ = ("id", "agent", "harness", "at_ms", "payload", "key", "attempts", "state")
    ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    HARNESS_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    id: str
    agent: str
    harness: str
    at_ms: int
    payload: bytes
    key: str
    attempts: int
    state: str
    def __init__(self, id: _Optional[str] = ..., agent: _Optional[str] = ..., harness: _Optional[str] = ..., at_ms: _Optional[int] = ..., payload: _Optional[bytes] = ..., key: _Optional[str] = ..., attempts: _Optional[int] = ..., state: _Optional[str] = ...) -> None: ...

class WakeList(_message.Message):
    __slots__ = ("wakes",)
    WAKES_FIELD_NUMBER: _ClassVar[int]
    wakes: _containers.RepeatedCompositeFieldContainer[WakeInfo]
    def __init__(self, wakes: _Optional[_Iterable[_Union[WakeInfo, _Mapping]]] = ...) -> None: ...

class HarnessTool(_message.Message):
    __slots__ = ("name", "description", "parameters")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    parameters: str
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., parameters: _Optional[str] = ...) -> None: ...

class HarnessInfo(_message.Message):
    __slots__ = ("name", "digest", "usage", "tools", "requested", "bound", "exports_wake", "exports_notify", "size", "error", "sha256")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    EXPORTS_WAKE_FIELD_NUMBER: _ClassVar[int]
    EXPORTS_NOTIFY_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    name: str
    digest: str
    usage: str
    tools: _containers.RepeatedCompositeFieldContainer[HarnessTool]
    requested: _containers.RepeatedScalarFieldContainer[str]
    bound: _containers.RepeatedScalarFieldContainer[str]
    exports_wake: bool
    exports_notify: bool
    size: int
    error: str
    sha256: str
    def __init__(self, name: _Optional[str] = ..., digest: _Optional[str] = ..., usage: _Optional[str] = ..., tools: _Optional[_Iterable[_Union[HarnessTool, _Mapping]]] = ..., requested: _Optional[_Iterable[str]] = ..., bound: _Optional[_Iterable[str]] = ..., exports_wake: bool = ..., exports_notify: bool = ..., size: _Optional[int] = ..., error: _Optional[str] = ..., sha256: _Optional[str] = ...) -> None: ...

class HarnessList(_message.Message):
    __slots__ = ("harnesses",)
    HARNESSES_FIELD_NUMBER: _ClassVar[int]
    harnesses: _containers.RepeatedCompositeFieldContainer[HarnessInfo]
    def __init__(self, harnesses: _Optional[_Iterable[_Union[HarnessInfo, _Mapping]]] = ...) -> None: ...

class Trap(_message.Message):
    __slots__ = ("kind", "message", "symbol", "location", "frames", "pc", "address", "host_calls")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SYMBOL_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    PC_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HOST_CALLS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    message: str
    symbol: str
    location: str
    frames: _containers.RepeatedScalarFieldContainer[str]
    pc: int
    address: int
    host_calls: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, kind: _Optional[str] = ..., message: _Optional[str] = ..., symbol: _Optional[str] = ..., location: _Optional[str] = ..., frames: _Optional[_Iterable[str]] = ..., pc: _Optional[int] = ..., address: _Optional[int] = ..., host_calls: _Optional[_Iterable[str]] = ...) -> None: ...

class ToolOutcome(_message.Message):
    __slots__ = ("done", "failed", "trap", "duration_us", "instructions")
    DONE_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    TRAP_FIELD_NUMBER: _ClassVar[int]
    DURATION_US_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    done: bytes
    failed: str
    trap: Trap
    duration_us: int
    instructions: int
    def __init__(self, done: _Optional[bytes] = ..., failed: _Optional[str] = ..., trap: _Optional[_Union[Trap, _Mapping]] = ..., duration_us: _Optional[int] = ..., instructions: _Optional[int] = ...) -> None: ...

class Invocation(_message.Message):
    __slots__ = ("id", "trigger", "agent", "harness", "tool", "digest", "started_ms", "duration_us", "instructions", "outcome", "message", "depth", "chain", "reason", "scheduled_at_ms", "attempt", "key", "subject", "epoch", "parent_chain", "client")
    ID_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    HARNESS_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    DURATION_US_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARENT_CHAIN_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    id: str
    trigger: str
    agent: str
    harness: str
    tool: str
    digest: str
    started_ms: int
    duration_us: int
    instructions: int
    outcome: str
    message: str
    depth: int
    chain: str
    reason: str
    scheduled_at_ms: int
    attempt: int
    key: str
    subject: str
    epoch: int
    parent_chain: str
    client: str
    def __init__(self, id: _Optional[str] = ..., trigger: _Optional[str] = ..., agent: _Optional[str] = ..., harness: _Optional[str] = ..., tool: _Optional[str] = ..., digest: _Optional[str] = ..., started_ms: _Optional[int] = ..., duration_us: _Optional[int] = ..., instructions: _Optional[int] = ..., outcome: _Optional[str] = ..., message: _Optional[str] = ..., depth: _Optional[int] = ..., chain: _Optional[str] = ..., reason: _Optional[str] = ..., scheduled_at_ms: _Optional[int] = ..., attempt: _Optional[int] = ..., key: _Optional[str] = ..., subject: _Optional[str] = ..., epoch: _Optional[int] = ..., parent_chain: _Optional[str] = ..., client: _Optional[str] = ...) -> None: ...

class InvocationList(_message.Message):
    __slots__ = ("invocations",)
    INVOCATIONS_FIELD_NUMBER: _ClassVar[int]
    invocations: _containers.RepeatedCompositeFieldContainer[Invocation]
    def __init__(self, invocations: _Optional[_Iterable[_Union[Invocation, _Mapping]]] = ...) -> None: ...

class RunningList(_message.Message):
    __slots__ = ("invocations",)
    INVOCATIONS_FIELD_NUMBER: _ClassVar[int]
    invocations: _containers.RepeatedCompositeFieldContainer[Invocation]
    def __init__(self, invocations: _Optional[_Iterable[_Union[Invocation, _Mapping]]] = ...) -> None: ...

class LogLine(_message.Message):
    __slots__ = ("time_ms", "level", "text", "harness", "agent")
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    HARNESS_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    time_ms: int
    level: str
    text: str
    harness: str
    agent: str
    def __init__(self, time_ms: _Optional[int] = ..., level: _Optional[str] = ..., text: _Optional[str] = ..., harness: _Optional[str] = ..., agent: _Optional[str] = ...) -> None: ...

class BusEvent(_message.Message):
    __slots__ = ("id", "source", "payload", "published_at_ms")
    ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    id: str
    source: str
    payload: str
    published_at_ms: int
    def __init__(self, id: _Optional[str] = ..., source: _Optional[str] = ..., payload: _Optional[str] = ..., published_at_ms: _Optional[int] = ...) -> None: ...

class Prompt(_message.Message):
    __slots__ = ("id", "kind", "agent", "harness", "capability", "argument", "text", "session", "expires_ms", "scopes")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    HARNESS_FIELD_NUMBER: _ClassVar[int]
    CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    ARGUMENT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: str
    agent: str
    harness: str
    capability: str
    argument: str
    text: str
    session: str
    expires_ms: int
    scopes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[str] = ..., agent: _Optional[str] = ..., harness: _Optional[str] = ..., capability: _Optional[str] = ..., argument: _Optional[str] = ..., text: _Optional[str] = ..., session: _Optional[str] = ..., expires_ms: _Optional[int] = ..., scopes: _Optional[_Iterable[str]] = ...) -> None: ...

class Approval(_message.Message):
    __slots__ = ("id", "agent", "harness", "sha256", "capability", "argument", "scope", "at_ms", "client")
    ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    HARNESS_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    ARGUMENT_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    id: str
    agent: str
    harness: str
    sha256: str
    capability: str
    argument: str
    scope: str
    at_ms: int
    client: str
    def __init__(self, id: _Optional[str] = ..., agent: _Optional[str] = ..., harness: _Optional[str] = ..., sha256: _Optional[str] = ..., capability: _Optional[str] = ..., argument: _Optional[str] = ..., scope: _Optional[str] = ..., at_ms: _Optional[int] = ..., client: _Optional[str] = ...) -> None: ...

class ApprovalList(_message.Message):
    __slots__ = ("approvals",)
    APPROVALS_FIELD_NUMBER: _ClassVar[int]
    approvals: _containers.RepeatedCompositeFieldContainer[Approval]
    def __init__(self, approvals: _Optional[_Iterable[_Union[Approval, _Mapping]]] = ...) -> None: ...
