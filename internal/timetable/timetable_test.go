package timetable

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse("2006-01-02 15:04:05 -0700", text)
	require.NoError(t, err)
	return parsed
}

func table(t *testing.T, spec Spec) *Timetable {
	t.Helper()
	table, err := New(spec)
	require.NoError(t, err)
	return table
}

// Clock changes: readings of the clock that do not exist, and readings that occur twice.
func TestClockChanges(t *testing.T) {
	for _, test := range []struct {
		cron, zone, after string
		want              []string
	}{
		// Berlin: 2026-03-29 02:00 becomes 03:00, 2026-10-25 03:00 becomes 02:00.
		{"30 2 * * *", "Europe/Berlin", "2026-03-28 00:00:00 +0100", []string{
			"2026-03-28 02:30:00 +0100", "2026-03-29 03:00:00 +0200", "2026-03-30 02:30:00 +0200"}},
		{"15,30,45 2 * * *", "Europe/Berlin", "2026-03-28 02:40:00 +0100", []string{
			"2026-03-28 02:45:00 +0100", "2026-03-29 03:00:00 +0200", "2026-03-30 02:15:00 +0200"}},
		{"30 2,3 * * *", "Europe/Berlin", "2026-03-28 12:00:00 +0100", []string{
			"2026-03-29 03:00:00 +0200", "2026-03-29 03:30:00 +0200", "2026-03-30 02:30:00 +0200"}},
		{"0 3 * * *", "Europe/Berlin", "2026-03-28 12:00:00 +0100", []string{
			"2026-03-29 03:00:00 +0200", "2026-03-30 03:00:00 +0200"}},
		{"*/30 * * * *", "Europe/Berlin", "2026-03-29 01:10:00 +0100", []string{
			"2026-03-29 01:30:00 +0100", "2026-03-29 03:00:00 +0200", "2026-03-29 03:30:00 +0200"}},
		{"0 */2 * * *", "Europe/Berlin", "2026-03-28 23:30:00 +0100", []string{
			"2026-03-29 00:00:00 +0100", "2026-03-29 04:00:00 +0200"}},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24 12:00:00 +0200", []string{
			"2026-10-25 02:30:00 +0200", "2026-10-26 02:30:00 +0100"}},
		{"0,30 2,3 * * *", "Europe/Berlin", "2026-10-25 02:10:00 +0200", []string{
			"2026-10-25 02:30:00 +0200", "2026-10-25 03:00:00 +0100", "2026-10-25 03:30:00 +0100", "2026-10-26 02:00:00 +0100"}},
		// Next is called within the hour that occurs for the second time.
		{"0,30 2,3 * * *", "Europe/Berlin", "2026-10-25 02:10:00 +0100", []string{"2026-10-25 03:00:00 +0100"}},
		{"*/30 * * * *", "Europe/Berlin", "2026-10-25 01:40:00 +0200", []string{
			"2026-10-25 02:00:00 +0200", "2026-10-25 02:30:00 +0200", "2026-10-25 02:00:00 +0100", "2026-10-25 02:30:00 +0100",
			"2026-10-25 03:00:00 +0100"}},
		{"@hourly", "Europe/Berlin", "2026-10-25 01:40:00 +0200", []string{
			"2026-10-25 02:00:00 +0200", "2026-10-25 02:00:00 +0100", "2026-10-25 03:00:00 +0100"}},
		// New York: 2026-03-08 02:00 becomes 03:00, 2026-11-01 02:00 becomes 01:00.
		{"15 1 * * *", "America/New_York", "2026-10-31 12:00:00 -0400", []string{
			"2026-11-01 01:15:00 -0400", "2026-11-02 01:15:00 -0500"}},
		{"59 2 8 3 *", "America/New_York", "2026-01-01 00:00:00 -0500", []string{"2026-03-08 03:00:00 -0400", "2027-03-08 02:59:00 -0500"}},
		// Lord Howe Island: the clock jumps by half an hour.
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00:00 +1030", []string{
			"2026-10-04 02:30:00 +1100", "2026-10-05 02:15:00 +1100"}},
		{"*/20 * * * *", "Australia/Lord_Howe", "2026-10-04 01:50:00 +1030", []string{
			"2026-10-04 02:40:00 +1100", "2026-10-04 03:00:00 +1100"}},
		// Beirut: midnight does not exist.
		{"@daily", "Asia/Beirut", "2026-03-28 12:00:00 +0200", []string{"2026-03-29 01:00:00 +0300", "2026-03-30 00:00:00 +0300"}},
		// Samoa had no 30 December 2011.
		{"0 12 * * *", "Pacific/Apia", "2011-12-29 13:00:00 -1000", []string{"2011-12-31 00:00:00 +1400", "2011-12-31 12:00:00 +1400"}},
	} {
		t.Run(test.cron+" "+test.zone+" after "+test.after, func(t *testing.T) {
			table := table(t, Spec{Cron: test.cron, Zone: test.zone})
			now := at(t, test.after)
			for _, want := range test.want {
				now = table.Next(now)
				require.Equal(t, at(t, want).UTC(), now)
			}
		})
	}
}

var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut", "Asia/Kolkata", "America/St_Johns", "Africa/Casablanca"}

func randomCron(r *rand.Rand) string {
	field := func(low, high int) string {
		pick := func() int { return low + r.IntN(high-low+1) }
		switch r.IntN(5) {
		case 0, 1:
			return "*"
		case 2:
			return fmt.Sprintf("*/%d", 1+r.IntN(20))
		case 3:
			a, b := pick(), pick()
			return fmt.Sprintf("%d-%d", min(a, b), max(a, b))
		}
		return fmt.Sprintf("%d,%d", pick(), pick())
	}
	return strings.Join([]string{field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 6)}, " ")
}

// The times are those at which the clock on the wall shows a reading that matches, found by checking every minute.
func TestNextMatchesEveryMinute(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 80 {
		expression, zone := randomCron(r), zones[r.IntN(len(zones))]
		c := table(t, Spec{Cron: expression, Zone: zone}).cron
		changes := []time.Time{at(t, "2026-03-29 00:00:00 +0000"), at(t, "2026-10-25 00:00:00 +0000"), at(t, "2026-03-08 04:00:00 +0000"), at(t, "2026-10-03 12:00:00 +0000")}
		from := changes[r.IntN(len(changes))].Add(time.Duration(r.IntN(48)-36) * time.Hour)
		until := from.Add(36 * time.Hour)
		var got []time.Time
		for next := c.next(from); !next.IsZero() && next.Before(until); next = c.next(next) {
			got = append(got, next.UTC())
		}
		require.Equal(t, c.everyMinute(from, until), got, "%s in %s from %s", expression, zone, from)
	}
}

// everyMinute applies the rules in the simplest way there is.
func (c *cronTable) everyMinute(from, until time.Time) []time.Time {
	shown := make(map[time.Time]bool)
	matches := func(reading time.Time) bool { return c.fields.Next(reading.Add(-time.Second)).Equal(reading) }
	var list []time.Time
	before := reading(c.zone, from.Add(-48*time.Hour-time.Minute))
	for now := from.Add(-48 * time.Hour); now.Before(until); now = now.Add(time.Minute) {
		clock := reading(c.zone, now)
		due := matches(clock) && (!c.byDay || !shown[clock])
		if c.byDay {
			for missing := before.Add(time.Minute); missing.Before(clock); missing = missing.Add(time.Minute) {
				due = due || matches(missing)
			}
		}
		shown[clock] = true
		before = clock
		if due && now.After(from) {
			list = append(list, now.UTC())
		}
	}
	return list
}

// reading is the local time that a clock in a zone shows, as if it were UTC.
func reading(zone *time.Location, now time.Time) time.Time {
	_, offset := now.In(zone).Zone()
	return now.Add(time.Duration(offset) * time.Second).UTC()
}

// In zones without clock changes, the times equal the times of the cron parser's own schedule.
func TestNextEqualsCronParser(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	parser := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	for range 500 {
		expression := randomCron(r)
		parsed, err := parser.Parse(expression)
		require.NoError(t, err)
		want := parsed.(*cron.SpecSchedule)
		if days := strings.Fields(expression); days[2][0] == '*' || days[4][0] == '*' {
			want.Dom |= 1 << 63 // both fields of days must match, also with a step
		}
		for _, zone := range []string{"UTC", "Asia/Kolkata", "Asia/Tokyo"} {
			location, err := time.LoadLocation(zone)
			require.NoError(t, err)
			table := table(t, Spec{Cron: expression, Zone: zone})
			now := time.Unix(1_700_000_000+r.Int64N(200_000_000), r.Int64N(1e9))
			for range 5 {
				expected := want.Next(now.In(location))
				if expected.IsZero() {
					break // it looks five years ahead
				}
				require.Equal(t, expected.UTC(), table.Next(now), "%s in %s after %s", expression, zone, now)
				now = expected
			}
		}
	}
}

func TestEvery(t *testing.T) {
	hour := table(t, Spec{Every: time.Hour})
	require.Equal(t, at(t, "2026-11-22 04:00:00 +0000").UTC(), hour.Next(at(t, "2026-11-22 03:00:00 +0000")))
	start := at(t, "2026-11-22 03:10:00 +0000").UTC()
	from := table(t, Spec{Every: 90 * time.Second, Start: start, End: start.Add(4 * time.Minute)})
	require.Equal(t, start, from.Next(start.Add(-time.Hour)), "the start is the first time")
	require.Equal(t, start.Add(90*time.Second), from.Next(start))
	require.Equal(t, start.Add(180*time.Second), from.Next(start.Add(179*time.Second)))
	require.Zero(t, from.Next(start.Add(180*time.Second)), "the next one is after the end")
	before := table(t, Spec{Every: time.Hour})
	require.Equal(t, time.Unix(-3600, 0).UTC(), before.Next(time.Unix(-3601, 0)), "before the epoch")
}

func TestNextStaysWithinStartAndEnd(t *testing.T) {
	start := at(t, "2026-11-22 03:00:00 +0000").UTC()
	daily := table(t, Spec{Cron: "0 3 * * *", Start: start, End: start.Add(24 * time.Hour)})
	require.Equal(t, start, daily.Next(start.Add(-72*time.Hour)))
	require.Equal(t, start.Add(24*time.Hour), daily.Next(start))
	require.Zero(t, daily.Next(start.Add(24*time.Hour)))
}

func TestPassedReturnsLastTimes(t *testing.T) {
	first := at(t, "2026-11-22 03:00:00 +0000").UTC()
	for _, spec := range []Spec{{Every: time.Minute}, {Cron: "* * * * *"}} {
		table := table(t, spec)
		for _, keep := range []int{1, 3, 100} {
			for minutes := range 10 {
				until := first.Add(time.Duration(minutes)*time.Minute + 30*time.Second)
				var all []time.Time
				for at := first; !at.After(until); at = table.Next(at) {
					all = append(all, at)
				}
				count, last := table.Passed(first, until, keep)
				require.Equal(t, int64(len(all)), count)
				require.Equal(t, all[max(0, len(all)-keep):], last)
			}
		}
		count, last := table.Passed(first, first.Add(-time.Second), 3)
		require.Zero(t, count)
		require.Empty(t, last)
	}
	count, last := table(t, Spec{Every: time.Second}).Passed(first, first.Add(365*24*time.Hour), 2)
	require.Equal(t, int64(365*24*3600+1), count)
	require.Equal(t, []time.Time{first.Add(365*24*time.Hour - time.Second), first.Add(365 * 24 * time.Hour)}, last)
	ended := table(t, Spec{Every: time.Minute, End: first.Add(2 * time.Minute)})
	count, last = ended.Passed(first, first.Add(time.Hour), 10)
	require.Equal(t, int64(3), count)
	require.Equal(t, first.Add(2*time.Minute), last[2])
}

func TestDelay(t *testing.T) {
	jittered := table(t, Spec{Cron: "* * * * *", Jitter: time.Minute})
	now := at(t, "2026-11-22 03:00:00 +0000")
	var delays []time.Duration
	for i := range 1000 {
		delay := jittered.Delay("nightly", now.Add(time.Duration(i)*time.Minute))
		require.Equal(t, delay, jittered.Delay("nightly", now.Add(time.Duration(i)*time.Minute)))
		require.GreaterOrEqual(t, delay, time.Duration(0))
		require.Less(t, delay, time.Minute)
		delays = append(delays, delay)
	}
	slices.Sort(delays)
	require.Less(t, delays[100], 10*time.Second, "a tenth of them is in the first tenth or so")
	require.Greater(t, delays[900], 50*time.Second)
	require.NotEqual(t, jittered.Delay("nightly", now), jittered.Delay("hourly", now))
	require.Zero(t, table(t, Spec{Every: time.Hour}).Delay("nightly", now))
}

func TestNewRefusesBadSpecs(t *testing.T) {
	for text, spec := range map[string]Spec{
		"it is empty":                       {},
		"five fields":                       {Cron: "0 3 * *"},
		"above maximum":                     {Cron: "61 3 * * *"},
		"there is no such day":              {Cron: "0 0 31 2 *"},
		"set by TimeZone":                   {Cron: "TZ=Europe/Berlin"},
		"an interval is set by E":           {Cron: "@every 1h"},
		"at most 256":                       {Cron: strings.Repeat("1,", 200) + "1 * * * *"},
		`TimeZone "Mars/Olympus"`:           {Cron: "@daily", Zone: "Mars/Olympus"},
		"differs from machine to machine":   {Cron: "@daily", Zone: "Local"},
		"Every 999ms":                       {Every: 999 * time.Millisecond},
		"Every -1s":                         {Every: -time.Second},
		"Every 1000000h0m0s":                {Every: 1000000 * time.Hour},
		"whole milliseconds":                {Every: time.Second + time.Microsecond},
		"less than Every, 1m0s":             {Every: time.Minute, Jitter: time.Minute},
		"Jitter 2h0m0s":                     {Cron: "@daily", Jitter: 2 * time.Hour},
		"Jitter -1s":                        {Cron: "@daily", Jitter: -time.Second},
		"only one of them":                  {Cron: "@daily", Every: time.Minute},
		"EndingAt 1970-01-01T00:00:10Z: mu": {Every: time.Minute, Start: time.Unix(20, 0), End: time.Unix(10, 0)},
	} {
		_, err := New(spec)
		require.ErrorContains(t, err, text)
	}
	_, err := New(Spec{Cron: "x", Zone: "Mars", Jitter: -1})
	for _, text := range []string{"Cron", "TimeZone", "Jitter"} {
		require.ErrorContains(t, err, text, "everything at once")
	}
}

func FuzzCron(f *testing.F) {
	f.Add("0 3 * * *", "Europe/Berlin", int64(1_790_000_000))
	f.Add("TZ=", "", int64(0))
	f.Fuzz(func(t *testing.T, expression, zone string, seconds int64) {
		table, err := New(Spec{Cron: expression, Zone: zone})
		if err != nil {
			return
		}
		now := time.Unix(seconds%4_000_000_000, 0)
		if next := table.Next(now); !next.IsZero() && !next.After(now) {
			t.Fatalf("%s is not after %s", next, now)
		}
	})
}

// The fields of days have the meaning that they have in Vixie's cron.
func TestDaysOfTheWeek(t *testing.T) {
	for expression, want := range map[string]string{
		"0 0 * * 7": "sun", "0 0 * * 0": "sun", "0 0 * * SUN": "sun", "0 0 * * 0,7": "sun", "0 0 * * 7-7": "sun",
		"0 0 * * 5-7": "fri sat sun", "0 0 * * FRI-SUN": "fri sat sun", "0 0 * * fri-7": "fri sat sun",
		"0 0 * * SAT-MON": "sat sun mon", "0 0 * * 6-1": "sat sun mon", "0 0 * * FRI-MON": "fri sat sun mon",
		"0 0 * * 0-7": "sun mon tue wed thu fri sat", "0 0 * * 1-7": "mon tue wed thu fri sat sun", "0 0 * * 7-2": "sun mon tue",
		"0 0 * * 5-7/2": "fri sun", "0 0 * * 1-7/3": "mon thu sun", "0 0 * * 2,5-7": "tue fri sat sun", "0 0 * * MON,7": "mon sun",
	} {
		table := table(t, Spec{Cron: expression})
		got, now := make(map[string]bool), at(t, "2026-11-21 12:00:00 +0000")
		for until := now.AddDate(0, 0, 7); ; {
			if now = table.Next(now); now.After(until) {
				break
			}
			got[strings.ToLower(now.Format("Mon"))] = true
		}
		days := make(map[string]bool)
		for day := range strings.FieldsSeq(want) {
			days[day] = true
		}
		require.Equal(t, days, got, expression)
	}
	for _, expression := range []string{
		"0 0 * * 8", "0 0 * * 5-8", "0 0 * * x-7", "0 0 * * 5-7/0", "0 0 * * 5-7/x", "0 0 * * -7", "0 0 * * 7-", "0 22-2 * * *",
		"0 0 * NOV-FEB *", "0 0 7", "0 0 30 2 *", "0 0 31 4,6,9,11 *",
	} {
		_, err := New(Spec{Cron: expression})
		require.ErrorContains(t, err, "Cron", expression)
	}
}

// A day on which either field matches, but both where one begins with a star.
func TestDayFieldsAreAlternatives(t *testing.T) {
	for expression, want := range map[string]int{ // in November 2026, which begins on a Sunday
		"0 0 10 * 1":       5 + 1,
		"0 0 1-7 * 1":      7 + 4,
		"0 0 3-20 * 1-5":   18 + 7,
		"0 0 */2 * 1":      2, // 9 and 23
		"0 0 1-31/2 * 1":   15 + 3,
		"0 0 */10 * */2":   2, // 1, a Sunday, and 21, a Saturday
		"0 0 * * 1":        5,
		"0 0 10 * *":       1,
		"0 0 ? * 1":        5,
		"0 0 10 * 0-6":     30,
		"0 0 */10 * FRI-7": 2, // 1 and 21
	} {
		table := table(t, Spec{Cron: expression})
		count := 0
		for now := table.Next(at(t, "2026-10-31 23:59:00 +0000")); now.Before(at(t, "2026-12-01 00:00:00 +0000")); now = table.Next(now) {
			count++
		}
		require.Equal(t, want, count, expression)
	}
}

// Days that are years apart are found, up to the last one that a text has a form for.
func TestRareDays(t *testing.T) {
	leap := table(t, Spec{Cron: "0 0 29 2 *"})
	require.Equal(t, at(t, "2104-02-29 00:00:00 +0000").UTC(), leap.Next(at(t, "2096-03-01 00:00:00 +0000")))
	sunday := table(t, Spec{Cron: "0 0 29 2 */7"})
	require.Equal(t, at(t, "2032-02-29 00:00:00 +0000").UTC(), sunday.Next(at(t, "2026-01-01 00:00:00 +0000")))
	require.Equal(t, at(t, "2128-02-29 00:00:00 +0000").UTC(), sunday.Next(at(t, "2088-03-01 00:00:00 +0000")))
	require.Zero(t, leap.Next(at(t, "9996-03-01 00:00:00 +0000")))
	require.Zero(t, table(t, Spec{Every: time.Hour}).Next(time.Date(9999, 12, 31, 23, 30, 0, 0, time.UTC)))
	for _, spec := range []Spec{
		{Every: time.Hour, Start: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		{Every: time.Hour, End: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		_, err := New(spec)
		require.ErrorContains(t, err, "ingAt 10000-01-01T00:00:00Z: must be")
	}
}

// Zones that are another one on each machine are refused.
func TestMachineDependentZonesAreRefused(t *testing.T) {
	for _, zone := range []string{"Local", "local", "localtime", "posixrules", "Factory", "posix/Europe/Berlin", "right/Europe/Berlin"} {
		_, err := New(Spec{Cron: "@daily", Zone: zone})
		require.ErrorContains(t, err, fmt.Sprintf("TimeZone %q: it", zone))
	}
	for _, zone := range []string{"", "UTC", "Etc/GMT+3", "Europe/Berlin"} {
		_, err := New(Spec{Cron: "@daily", Zone: zone})
		require.NoError(t, err)
	}
}
