/* Rules, recurrences, wakes, events and agents, shown as text. */
#include <berm/berm.h>

static berm_calendar calendar_of(berm_str zone, int64_t gap, int64_t overlap, int64_t anchor_ms)
{
    berm_calendar calendar = {zone, (berm_gap)gap, (berm_overlap)overlap, anchor_ms};
    return calendar;
}

BERM_TOOL(next, "Occurrences of a rule.",
    required(string, rule, "the rule"),
    required(string, zone, "its zone"),
    required(range(0, 3), gap, "berm_gap"),
    required(range(0, 2), overlap, "berm_overlap"),
    required(integer, after, "Unix ms"),
    required(integer, until, "Unix ms"),
    required(range(1, 100000), most, "how many at most"),
    optional(integer, anchor, "of @every, Unix ms", 0))
{
    berm_rule rule = berm_rule_of(args->rule);
    berm_calendar calendar = calendar_of(args->zone, args->gap, args->overlap, args->anchor);
    int64_t at = args->after;
    for (int64_t n = 0; n < args->most && berm_rule_next(&rule, &calendar, at, &at) && at <= args->until; n++)
        berm_printf(out, "%lld\n", (long long)at);
}

BERM_TOOL(instant, "The instant of a local time.",
    required(string, zone, "its zone"),
    required(range(0, 3), gap, "berm_gap"),
    required(range(0, 2), overlap, "berm_overlap"),
    required(integer, year, "2026"),
    required(integer, month, "1 to 12"),
    required(integer, day, "1 to 31"),
    required(integer, hour, "0 to 23"),
    required(integer, minute, "0 to 59"))
{
    int64_t at;
    berm_calendar calendar = calendar_of(args->zone, args->gap, args->overlap, 0);
    berm_date date = {args->year, (int)args->month, (int)args->day, (int)args->hour, (int)args->minute, 0, 0, 0};
    if (berm_calendar_instant(&calendar, &date, &at))
        berm_printf(out, "%lld", (long long)at);
    else
        berm_puts(out, "none");
}

BERM_TOOL(base64, "Bytes and back.", required(string, text, "what to encode"), required(string, code, "to decode"))
{
    berm_str bytes;
    berm_put_base64(out, args->text);
    if (!berm_base64_decode(args->code, &bytes))
        berm_puts(out, " none");
    else
        for (size_t i = 0; i < bytes.len; i++)
            berm_printf(out, " %02x", (unsigned char)bytes.ptr[i]);
}

BERM_TOOL(wakes, "Each capability of wakes.", required(integer, at, "Unix ms"))
{
    berm_str id = berm_wake_at(args->at, BERM_STR("\xff payload"), BERM_STR("key"));
    berm_printf(out, "%.*s;", BERM_ARG(id));
    berm_pendings pendings = berm_wake_list();
    for (size_t i = 0; i < pendings.len; i++)
        berm_printf(out, "%s %s %lld;", pendings.items[i].id.ptr, pendings.items[i].key.ptr,
                    (long long)pendings.items[i].at_ms);
    berm_printf(out, "%d", berm_wake_cancel(id));
    berm_printf(out, "%d", berm_wake_cancel(id));
}

BERM_TOOL(events, "Each capability of events.", required(string, source, "where from"))
{
    berm_event_publish(args->source, BERM_STR("payload"));
    berm_str id = berm_event_subscribe(args->source, true);
    berm_str other = berm_event_subscribe(BERM_STR("other:*"), false);
    berm_printf(out, "%.*s %.*s %d%d", BERM_ARG(id), BERM_ARG(other), berm_event_unsubscribe(id),
                berm_event_unsubscribe(id));
}

BERM_TOOL(peers, "Other agents.")
{
    berm_peers peers = berm_peers_list();
    for (size_t i = 0; i < peers.len; i++)
        berm_printf(out, "%s: %s;", peers.items[i].name.ptr, peers.items[i].description.ptr);
}

BERM_TOOL(ask, "Another agent.", required(string, agent, "whom"), required(string, content, "what"))
{
    berm_reply reply = berm_agent_try_send(args->agent, args->content);
    berm_printf(out, "%d %.*s;", reply.status, BERM_ARG(reply.data));
    berm_put(out, berm_agent_send(args->agent, args->content));
}

BERM_TOOL(skills, "Skills.", required(string, name, "which"))
{
    berm_skills skills = berm_skills_list();
    for (size_t i = 0; i < skills.len; i++)
        berm_printf(out, "%s: %s;", skills.items[i].name.ptr, skills.items[i].description.ptr);
    berm_put(out, berm_skills_get(args->name));
}

BERM_TOOL(sessions, "What was said.", required(string, query, "about what"))
{
    berm_hits hits = berm_sessions_search(args->query, 3, 1, 0);
    for (size_t i = 0; i < hits.len; i++) {
        const berm_hit *hit = &hits.items[i];
        berm_printf(out, "%s %s %lld %.2f:", hit->session.ptr, hit->title.ptr, (long long)hit->index, hit->score);
        for (size_t k = 0; k < hit->window_len; k++) {
            const berm_said *said = &hit->window[k];
            berm_printf(out, " %s %lld %s %d %s", said->role.ptr, (long long)said->index, said->snippet.ptr,
                        said->truncated, said->tool_name.ptr);
        }
        berm_putc(out, ';');
    }
}

/* ---- catching ---- */

static void fail_if_odd(void *context)
{
    int *n = (int *)context;
    if (*n % 2)
        berm_fail("%d is odd", *n);
    (*n)++;
}

static void catch_inside(void *context)
{
    berm_str message;
    int n = 7;
    bool failed = berm_catch(fail_if_odd, &n, &message);
    berm_fail("outer after %d %.*s (%s)", failed, BERM_ARG(message), (const char *)context);
}

static void fill_the_heap(void *context)
{
    (void)context;
    for (;;)
        berm_alloc((size_t)1 << 20);
}

BERM_TOOL(catches, "Failures that are caught, and one that is not.", required(boolean, fail, "at the end"))
{
    berm_str message;
    int n = 2;
    berm_printf(out, "%d %d;", berm_catch(fail_if_odd, &n, &message), n);
    berm_printf(out, "%d ", berm_catch(fail_if_odd, &n, &message));
    berm_printf(out, "%s;", message.ptr);
    berm_printf(out, "%d ", berm_catch(catch_inside, (void *)"context", &message));
    berm_printf(out, "%s;", message.ptr);
    berm_printf(out, "%d ", berm_catch(fill_the_heap, NULL, &message));
    berm_printf(out, "%s;", message.ptr);
    if (args->fail)
        berm_fail("not caught");
}

/* ---- recurrences: the payload says what the body does ---- */

BERM_TOOL(start, "Start a recurrence.",
    required(string, key, "its name"),
    required(string, rule, "its rule"),
    optional(string, zone, "its zone", ""),
    optional(string, payload, "what the body does: fail, trap, stop, restart, or nothing", ""),
    optional(integer, gap, "berm_gap", 0),
    optional(integer, overlap, "berm_overlap", 0),
    optional(range(0, 2), late, "berm_late", 0),
    optional(integer, grace_s, "how late is late", 0),
    optional(integer, retry_s, "the first retry", 0),
    optional(integer, retry_most_s, "the slowest retry", 0))
{
    berm_recurrence recurrence = {args->key, args->rule, args->zone, args->payload, (berm_gap)args->gap,
                                  (berm_overlap)args->overlap, (berm_late)args->late, args->grace_s,
                                  args->retry_s, args->retry_most_s};
    berm_printf(out, "%lld", (long long)berm_recurring_start(&recurrence));
}

BERM_TOOL(stop, "Stop a recurrence.", required(string, key, "its name"))
{
    berm_printf(out, "%d", berm_recurring_stop(args->key));
}

static void occur(const berm_occurrence *it, berm_out *out)
{
    berm_printf(out, "%.*s due=%lld next=%lld failures=%lld late=%d", BERM_ARG(it->key), (long long)it->due_ms,
                (long long)it->next_ms, (long long)it->failures, it->late);
    if (berm_starts_with(it->payload, BERM_STR("fail")))
        berm_fail("%.*s", BERM_ARG(it->payload));
    if (berm_is(it->payload, "trap"))
        berm_panic("trapped");
    if (berm_starts_with(it->payload, BERM_STR("stop")))
        berm_recurring_stop(it->key);
    if (berm_is(it->payload, "stop, fail"))
        berm_fail("stopped and failed");
    if (berm_is(it->payload, "restart")) {
        berm_recurrence slower = {it->key, BERM_STR("@every 1h"), BERM_STR("UTC"), BERM_STR("slower"),
                                  BERM_GAP_SHIFT, BERM_OVERLAP_FIRST, BERM_LATE_ONCE, 0, 0, 0};
        berm_recurring_start(&slower);
        berm_fail("restarted");
    }
}

BERM_ON_WAKE
{
    if (berm_recurring_run(wake, occur, out))
        return;
    berm_printf(out, "%s|%s|", wake->id.ptr, wake->key.ptr);
    berm_put_lossy(out, wake->payload);
    berm_printf(out, "|%lld|%lld|%lld|%d", (long long)wake->scheduled_at_ms, (long long)wake->now_ms,
                (long long)wake->attempt, wake->late);
}

BERM_ON_NOTIFY
{
    berm_printf(out, "%s|%s|%s|%lld|%s", event->id.ptr, event->source.ptr, event->payload.ptr,
                (long long)event->published_at_ms, berm_str_dup(event->subscription));
}
