package timetable

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a program in an empty container knows the zones as well

	"github.com/robfig/cron/v3"
)

// cronTable gives the times of a cron expression.
type cronTable struct {
	zone   *time.Location
	fields cron.Schedule
	// byDay: the hours are named, so each time of day happens once a day.
	byDay bool
}

func newCronTable(expression, zone string) (*cronTable, error) {
	var faults []error
	location, err := loadZone(zone)
	faults = append(faults, err)
	fields, err := parseCron(expression)
	if err != nil {
		faults = append(faults, fault("Cron %.80q: %w", expression, err))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	c := &cronTable{zone: location, fields: fields, byDay: namesHours(expression)}
	if c.reading(time.Unix(0, 0).UTC()).IsZero() {
		return nil, fault("Cron %.80q: there is no such day", expression)
	}
	return c, nil
}

// loadZone returns a time zone that is the same on every machine.
func loadZone(name string) (*time.Location, error) {
	root, _, _ := strings.Cut(strings.ToLower(name), "/")
	switch root {
	case "local", "localtime", "posixrules", "posix", "right":
		return nil, fault("TimeZone %.80q: it differs from machine to machine, name it as in Europe/Berlin", name)
	case "factory":
		return nil, fault("TimeZone %.80q: it stands for a zone that was not set, name it as in Europe/Berlin", name)
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, fault("TimeZone %.80q: it is not a name of the IANA database such as Europe/Berlin", name)
	}
	return location, nil
}

// The days of the calendar repeat after 400 years. The parser's schedule finds a reading within yearsAtOnce.
const calendarYears, yearsAtOnce = 400, 5

// reading is the first matching reading of a clock after one; zero when there is none.
func (c *cronTable) reading(after time.Time) time.Time {
	for range calendarYears / yearsAtOnce {
		if next := c.fields.Next(after); !next.IsZero() {
			return next
		}
		after = time.Date(after.Year()+yearsAtOnce, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Second)
	}
	return time.Time{}
}

func parseCron(expression string) (cron.Schedule, error) {
	switch {
	case strings.TrimSpace(expression) == "":
		return nil, errors.New("it is empty")
	case len(expression) > maxCron:
		return nil, fmt.Errorf("%d bytes, at most %d are allowed", len(expression), maxCron)
	case strings.Contains(expression, "TZ="):
		return nil, errors.New("the time zone is set by TimeZone")
	case strings.HasPrefix(expression, "@every"):
		return nil, errors.New("an interval is set by Every")
	}
	text := expression
	list := strings.Fields(expression)
	if len(list) == 5 {
		list[4] = weekdays(list[4])
		text = strings.Join(list, " ")
	}
	known := cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor
	parsed, err := cron.NewParser(known).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("it has five fields, minute, hour, day of month, month and day of week, "+
			"or is one such as @daily: %w", err)
	}
	if fields, ok := parsed.(*cron.SpecSchedule); ok && len(list) == 5 {
		setStar(&fields.Dom, list[2])
		setStar(&fields.Dow, list[4])
	}
	return parsed, nil
}

// star is the bit by which the parser's schedule knows a field of days that does not restrict the other one.
const star = 1 << 63

// setStar sets that bit as Vixie's cron does: for a field that begins with a star, also one with a step.
func setStar(field *uint64, text string) {
	if *field &^= star; text[0] == '*' || text[0] == '?' {
		*field |= star
	}
}

var dayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// dayNumber is the number of a day of the week by its name or number, 0 to 7; -1 for anything else.
func dayNumber(text string) int {
	if i := slices.Index(dayNames, strings.ToLower(text)); i >= 0 {
		return i
	}
	if len(text) == 1 && text[0] >= '0' && text[0] <= '7' {
		return int(text[0] - '0')
	}
	return -1
}

// weekdays puts a field of days of the week into the form that the parser knows: without 7, and without ranges over the
// end of the week. It leaves a field that it does not understand to the parser.
func weekdays(field string) string {
	parts := strings.Split(field, ",")
	for i, part := range parts {
		parts[i] = weekdayRange(part)
	}
	return strings.Join(parts, ",")
}

func weekdayRange(part string) string {
	days, stepText, hasStep := strings.Cut(part, "/")
	from, to, isRange := strings.Cut(days, "-")
	first, last := dayNumber(from), dayNumber(to)
	switch {
	case !isRange && first == 7:
		return "0" + strings.TrimPrefix(part, days)
	case !isRange || first < 0 || last < 0 || first <= last && last < 7:
		return part
	}
	step := 1
	if hasStep {
		var err error
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 {
			return part
		}
	}
	if first == 7 {
		first, last = 0, last%7
	}
	if last < first {
		last += 7
	}
	var list []string
	for day := first; day <= last; day += step {
		list = append(list, strconv.Itoa(day%7))
	}
	return strings.Join(list, ",")
}

// namesHours reports whether the hour field names particular hours, as opposed to all of them or a step.
func namesHours(expression string) bool {
	if strings.HasPrefix(expression, "@") {
		return expression != "@hourly"
	}
	hour := strings.Fields(expression)[1]
	return hour[0] != '*' && hour[0] != '?'
}
