/* berm.clock.* and the calendar, which is the guest's business. */
#include "wrap.h"

#include <berm/clock.h>

#define DAY_MS INT64_C(86400000)

berm_now berm_clock_now(void)
{
    berm_now now;
    berm_str rest = berm_must(berm_capability("berm.clock.now", NULL, 0));
    now.unix_ms = wrap_integer(&rest);
    now.offset_s = wrap_integer(&rest);
    now.zone = wrap_field(&rest);
    return now;
}

berm_offset berm_clock_offset(berm_str zone, int64_t at_ms)
{
    char memory[24];
    berm_offset offset;
    berm_str fields[] = {zone, wrap_decimal(at_ms, memory)};
    berm_str rest = berm_must(berm_capability("berm.clock.offset", fields, 2));
    offset.offset_s = wrap_integer(&rest);
    berm_str next = wrap_field(&rest);
    offset.next_ms = 0;
    offset.has_next = next.len != 0 && berm_parse_int(next, &offset.next_ms);
    return offset;
}

/* Days since 1970-01-01 and back, in the proleptic Gregorian calendar; years that start in March make
 * the leap day the last of a year, and 400 of them always have 146097 days. */
static int64_t floor_divide(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static int64_t days_of(int64_t year, int month, int day)
{
    year -= month <= 2;
    int64_t era = floor_divide(year, 400);
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

static void set_day(berm_date *date, int64_t days)
{
    int64_t from_march = days + 719468;
    int64_t era = floor_divide(from_march, 146097);
    int64_t day = from_march - era * 146097;
    int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    int64_t day_of_year = day - (365 * year + year / 4 - year / 100);
    int month = (int)((5 * day_of_year + 2) / 153);
    date->day = (int)(day_of_year - (153 * month + 2) / 5 + 1);
    date->month = month < 10 ? month + 3 : month - 9;
    date->year = year + era * 400 + (date->month <= 2);
}

berm_date berm_date_of(int64_t unix_ms, int64_t offset_s)
{
    berm_date date;
    int64_t local = unix_ms + offset_s * 1000;
    int64_t days = floor_divide(local, DAY_MS);
    int64_t rest = local - days * DAY_MS;
    set_day(&date, days);
    date.hour = (int)(rest / 3600000);
    date.minute = (int)(rest / 60000 % 60);
    date.second = (int)(rest / 1000 % 60);
    date.millisecond = (int)(rest % 1000);
    date.weekday = (int)(((days + 4) % 7 + 7) % 7);
    return date;
}

int64_t berm_date_to_ms(const berm_date *date, int64_t offset_s)
{
    int64_t days = days_of(date->year, date->month, date->day);
    int64_t seconds = (days * 24 + date->hour) * 3600 + date->minute * 60 + date->second - offset_s;
    return seconds * 1000 + date->millisecond;
}

void berm_put_minute(berm_out *out, int64_t unix_ms, int64_t offset_s)
{
    berm_date date = berm_date_of(unix_ms, offset_s);
    berm_printf(out, "%04lld-%02d-%02d %02d:%02d", (long long)date.year, date.month, date.day, date.hour,
                date.minute);
}
