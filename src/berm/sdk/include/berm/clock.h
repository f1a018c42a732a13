/* The time: berm.clock.* */
#ifndef BERM_CLOCK_H
#define BERM_CLOCK_H

#include <berm/capability.h>
#include <berm/out.h>

BERM_BEGIN

typedef struct berm_now {
    int64_t unix_ms;
    int64_t offset_s; /* local time minus UTC */
    berm_str zone;    /* the zone's IANA name */
} berm_now;

berm_now berm_clock_now(void);

typedef struct berm_offset {
    int64_t offset_s;
    bool has_next;
    int64_t next_ms; /* when the offset changes next */
} berm_offset;

/* The offset of a zone at an instant. */
berm_offset berm_clock_offset(berm_str zone, int64_t at_ms);

/* A calendar reading of an instant; the host knows instants, the calendar is the guest's. */
typedef struct berm_date {
    int64_t year;
    int month;       /* 1 to 12 */
    int day;         /* 1 to 31 */
    int hour;
    int minute;
    int second;
    int millisecond;
    int weekday;     /* 0 for Sunday */
} berm_date;

berm_date berm_date_of(int64_t unix_ms, int64_t offset_s);
int64_t berm_date_to_ms(const berm_date *date, int64_t offset_s);

/* Write an instant as a date and a time to the minute: "2026-12-01 08:00". */
void berm_put_minute(berm_out *out, int64_t unix_ms, int64_t offset_s);

BERM_END

#endif
