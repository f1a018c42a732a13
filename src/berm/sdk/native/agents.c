/* Stand-ins of what the daemon knows of agents: peers, their answers, sessions and skills, in memory. */
#include "native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 256 /* of each kind */

typedef struct made_up {
    const char *name;
    const char *description;
    const char *text;
    bool fails;
} made_up;

typedef struct message {
    const char *session;
    const char *title;
    const char *role;
    const char *text;
    int64_t index; /* within its session */
} message;

static made_up peers[MOST], agents[MOST], skills[MOST];
static size_t peer_count, agent_count, skill_count;
static message messages[MOST];
static size_t message_count;
static char *sent; /* all lines */
static size_t sent_len;

static void add(made_up *to, size_t *count, made_up one)
{
    if (*count == MOST)
        berm_test_failed(NULL, 0, "more than %d of a kind are made up", MOST);
    to[(*count)++] = one;
}

/* The newest of this name, or NULL. */
static const made_up *find(const made_up *among, size_t count, berm_str name)
{
    while (count-- > 0)
        if (berm_is(name, among[count].name))
            return &among[count];
    return NULL;
}

static void put_text(berm_json_writer *json, const char *key, const char *text)
{
    berm_json_key(json, key);
    berm_json_write_string(json, berm_str_of(text));
}

static void put_number(berm_json_writer *json, const char *key, int64_t value)
{
    berm_json_key(json, key);
    berm_json_write_int(json, value);
}

static void answer_names(berm_answer *answer, const made_up *from, size_t count)
{
    berm_json_writer json;
    berm_json_write_to(&json, &answer->data);
    berm_json_open_array(&json);
    for (size_t i = 0; i < count; i++) {
        berm_json_open_object(&json);
        put_text(&json, "name", from[i].name);
        put_text(&json, "description", from[i].description);
        berm_json_close(&json);
    }
    berm_json_close(&json);
}

/* ---- peers, and what is sent to agents ---- */

static void peers_list(berm_request *request, berm_answer *answer)
{
    (void)request;
    answer_names(answer, peers, peer_count);
}

void berm_test_peers(void)
{
    berm_test_stand_in("crabtalk.peers.list", peers_list);
}

void berm_test_peer(const char *name, const char *description)
{
    berm_test_peers();
    add(peers, &peer_count, (made_up){name, description, "", false});
}

static void note_sent(berm_str agent, berm_str content)
{
    size_t len = agent.len + content.len + 2;
    sent = (char *)realloc(sent, sent_len + len);
    if (!sent)
        abort();
    berm_out line;
    berm_out_fixed(&line, sent + sent_len, len);
    berm_printf(&line, "%.*s %.*s\n", BERM_ARG(agent), BERM_ARG(content));
    sent_len += len;
}

static void put_said(berm_json_writer *json, berm_str name, berm_str content)
{
    const made_up *agent = find(agents, agent_count, name);
    berm_json_open_object(json);
    if (agent) {
        note_sent(name, content);
        put_text(json, agent->fails ? "error" : "text", agent->text);
    } else {
        char why[128];
        snprintf(why, sizeof why, "no such agent: %.*s", BERM_ARG(berm_slice(name, 0, 80)));
        put_text(json, "error", why);
    }
    berm_json_close(json);
}

/* Several are asked: what each says, as an array. */
static void send_all(berm_request *request, berm_answer *answer, berm_str name, berm_str content)
{
    berm_json_writer json;
    berm_json_write_to(&json, &answer->data);
    berm_json_open_array(&json);
    put_said(&json, name, content);
    while (request->rest.len) {
        name = berm_request_field(request);
        put_said(&json, name, berm_request_field(request));
    }
    berm_json_close(&json);
}

static void agent_send(berm_request *request, berm_answer *answer)
{
    berm_str name = berm_request_field(request);
    berm_str content = berm_request_field(request);
    if (request->rest.len) {
        send_all(request, answer, name, content);
        return;
    }
    const made_up *agent = find(agents, agent_count, name);
    if (!agent) {
        berm_answer_error(answer, "no such agent: %.*s", BERM_ARG(name));
        return;
    }
    note_sent(name, content);
    if (agent->fails)
        berm_answer_error(answer, "%s", agent->text);
    else
        berm_answer_bytes(answer, berm_str_of(agent->text));
}

static void add_agent(const char *name, const char *text, bool fails)
{
    berm_test_stand_in("crabtalk.agent.send", agent_send);
    add(agents, &agent_count, (made_up){name, "", text, fails});
}

void berm_test_agent_says(const char *name, const char *answer)
{
    add_agent(name, answer, false);
}

void berm_test_agent_fails(const char *name, const char *message)
{
    add_agent(name, message, true);
}

berm_str berm_test_sent(void)
{
    return berm_str_make(sent ? sent : "", sent_len);
}

/* ---- skills ---- */

static void skills_list(berm_request *request, berm_answer *answer)
{
    (void)request;
    answer_names(answer, skills, skill_count);
}

static void skills_get(berm_request *request, berm_answer *answer)
{
    berm_str name = berm_request_field(request);
    const made_up *skill = find(skills, skill_count, name);
    if (skill)
        berm_answer_bytes(answer, berm_str_of(skill->text));
    else
        berm_answer_error(answer, "no skill `%.*s`", BERM_ARG(name));
}

void berm_test_skills(void)
{
    berm_test_stand_in("crabtalk.skills.list", skills_list);
    berm_test_stand_in("crabtalk.skills.get", skills_get);
}

void berm_test_skill(const char *name, const char *description, const char *text)
{
    berm_test_skills();
    add(skills, &skill_count, (made_up){name, description, text, false});
}

/* ---- sessions ---- */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool occurs(berm_str word, const char *text)
{
    for (; *text; text++) {
        size_t i = 0;
        while (i < word.len && text[i] && lower(text[i]) == lower(word.ptr[i]))
            i++;
        if (i == word.len)
            return true;
    }
    return word.len == 0;
}

static bool is_hit(const message *m, berm_str query)
{
    bool more = strcmp(m->role, "tool") != 0; /* results of tools are never found */
    bool hit = more;
    while (more && hit) {
        berm_str word;
        more = berm_cut(query, BERM_STR(" "), &word, &query);
        hit = occurs(word, m->text);
    }
    return hit;
}

static void put_window(berm_json_writer *json, const message *hit, int64_t before, int64_t after)
{
    berm_json_key(json, "window");
    berm_json_open_array(json);
    for (size_t i = 0; i < message_count; i++) {
        const message *m = &messages[i];
        bool is_tool = strcmp(m->role, "tool") == 0;
        if (strcmp(m->session, hit->session) != 0 || m->index < hit->index - before ||
            m->index > hit->index + after)
            continue;
        berm_json_open_object(json);
        put_text(json, "role", m->role);
        put_number(json, "index", m->index);
        put_text(json, "snippet", is_tool ? "" : m->text);
        berm_json_key(json, "truncated");
        berm_json_write_bool(json, is_tool);
        put_text(json, "tool_name", is_tool ? m->text : "");
        berm_json_close(json);
    }
    berm_json_close(json);
}

static int64_t number(berm_request *request, const char *what)
{
    int64_t value;
    berm_str text = berm_request_field(request);
    if (!berm_parse_int(text, &value))
        berm_test_failed(NULL, 0, "expected `%s` as a number, got `%.*s`", what, BERM_ARG(text));
    return value;
}

static void sessions_search(berm_request *request, berm_answer *answer)
{
    berm_json_writer json;
    berm_str query = berm_trim(berm_request_field(request));
    int64_t limit = number(request, "limit");
    int64_t before = number(request, "before");
    int64_t after = number(request, "after");
    if (query.len == 0) {
        berm_answer_error(answer, "query: expected words to look for");
        return;
    }
    berm_json_write_to(&json, &answer->data);
    berm_json_open_array(&json);
    for (size_t i = 0; i < message_count && limit > 0; i++) {
        const message *m = &messages[i];
        if (!is_hit(m, query))
            continue;
        berm_json_open_object(&json);
        put_text(&json, "session", m->session);
        put_text(&json, "title", m->title);
        put_number(&json, "index", m->index);
        put_number(&json, "score", limit--);
        put_window(&json, m, before, after);
        berm_json_close(&json);
    }
    berm_json_close(&json);
}

void berm_test_sessions(void)
{
    berm_test_stand_in("crabtalk.sessions.search", sessions_search);
}

void berm_test_said(const char *session, const char *title, const char *role, const char *text)
{
    int64_t index = 0;
    berm_test_sessions();
    for (size_t i = 0; i < message_count; i++)
        index += strcmp(messages[i].session, session) == 0;
    if (message_count == MOST)
        berm_test_failed(NULL, 0, "more than %d messages are made up", MOST);
    messages[message_count++] = (message){session, title, role, text, index};
}
