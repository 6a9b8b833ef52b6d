package runsearch

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/errorwords"
)

// Words are the conditions that a text of a search names: see [ParseWords].
type Words struct {
	Flow, Key, ID    string
	States           []fabrictype.RunState
	Tags             map[string]string
	Queued, Children bool
	// CreatedFrom to FinishedBefore bound the times of runs as in [Query].
	CreatedFrom, CreatedBefore, FinishedFrom, FinishedBefore time.Time
	// Terms are the words that name no condition of their own.
	Terms []Term
}

// Term is a word, or several in quotes, that a run must have: as the value of a tag or in its error.
type Term struct {
	Text string `json:"text"`
	// Error excludes the values of tags. Category makes the text a category of errors.
	Error    bool `json:"error,omitempty"`
	Category bool `json:"category,omitempty"`
}

// matches checks a run that the index has found: hashes may collide, and the index has no order of words.
func (t Term) matches(tags map[string]string, category, reason string) bool {
	if t.Category {
		return category == t.Text
	}
	if !t.Error {
		for _, value := range tags {
			if value == t.Text {
				return true
			}
		}
	}
	return errorwords.Contains(reason, t.Text)
}

// Bounds of the text of a search.
const (
	maxWords = 32
	maxTerms = 8
)

// WordNames are the names that may be before the colon of a word, besides keys of tags, which have a dot.
var WordNames = [...]string{"state", "flow", "run", "key", "error", "category", "created", "finished", "is"}

// States are the states of runs.
var States = [...]fabrictype.RunState{
	fabrictype.RunRunning, fabrictype.RunSucceeded, fabrictype.RunFailed, fabrictype.RunCancelled,
	fabrictype.RunExpired,
}

// word is a part of the text between spaces: a name before a colon, and the text after it; quoted text is taken as it
// is.
type word struct {
	name, text string
	quoted     bool
}

// ParseWords reads the text of a search. Each of its words is one of:
//   - a state: running, succeeded, failed, cancelled or expired, also with "state:" in front
//   - a time of the start: today, yesterday, 90m, 2h, 7d or 4w for the time since, a day as 2026-11-28, a moment as
//     2026-11-28T15:04, or two of them as from..to, one of which may be missing. With "finished:" in front it is the
//     time of the end. Days begin in the time zone of now.
//   - flow:NAME, key:KEY, is:queued, is:child, tag.key:VALUE
//   - run:ID, the beginning of the id of the run
//   - error:TEXT and category:NAME, the words and the category of the error of the run
//   - any other word: the value of a tag, or a word of the error
//
// Text in quotes is one word. The error names each word that means nothing.
func ParseWords(text string, now time.Time) (Words, error) {
	p := parser{now: now}
	words, err := split(text)
	if err == nil && len(words) > maxWords {
		err = fmt.Errorf("has %d words, at most %d are allowed", len(words), maxWords)
	}
	if err != nil {
		return Words{}, err
	}
	for _, w := range words {
		if err := p.add(w); err != nil {
			p.faults = append(p.faults, err)
		}
	}
	if len(p.Terms) > maxTerms {
		p.faults = append(p.faults, fmt.Errorf("has %d words to find, at most %d are allowed", len(p.Terms), maxTerms))
	}
	return p.Words, errors.Join(p.faults...)
}

// parser collects the conditions of words.
type parser struct {
	Words
	now    time.Time
	faults []error
}

// split cuts a text into its words.
func split(text string) ([]word, error) {
	var words []word
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		var w word
		if name := namePattern.FindString(text); name != "" {
			w.name, text = strings.TrimSuffix(name, ":"), text[len(name):]
		}
		if strings.HasPrefix(text, `"`) {
			inside, rest, closed := strings.Cut(text[1:], `"`)
			if !closed {
				return nil, fmt.Errorf("%s: the quote is not closed", text)
			}
			w.text, w.quoted, text = inside, true, rest
		} else {
			end := strings.IndexFunc(text, func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' || r == '\r' })
			if end < 0 {
				end = len(text)
			}
			w.text, text = text[:end], text[end:]
		}
		words = append(words, w)
	}
	return words, nil
}

var (
	namePattern = regexp.MustCompile(`^[a-z][\w.-]*:`)
	tagPattern  = regexp.MustCompile(`^[a-z][a-z0-9_]*\.[^.]`)
	agoPattern  = regexp.MustCompile(`^(\d{1,6})([mhdw])$`)
	dayPattern  = regexp.MustCompile(`^\d{4}-\d\d-\d\d`)
)

func (p *parser) add(w word) error {
	if w.name == "" {
		return p.addFree(w)
	}
	if w.text == "" {
		return fmt.Errorf("%s: nothing is behind the colon", w.name)
	}
	switch w.name {
	case "state":
		return p.addState(w.text)
	case "flow":
		return once(&p.Flow, w)
	case "key":
		return once(&p.Key, w)
	case "run":
		return once(&p.ID, w)
	case "error":
		if len(errorwords.Of(w.text)) == 0 {
			return fmt.Errorf("error:%s: has no word that is indexed, such as those of two letters or more", w.text)
		}
		p.Terms = append(p.Terms, Term{Text: w.text, Error: true})
	case "category":
		p.Terms = append(p.Terms, Term{Text: w.text, Category: true})
	case "created":
		return p.addTime(w.text, &p.CreatedFrom, &p.CreatedBefore)
	case "finished":
		return p.addTime(w.text, &p.FinishedFrom, &p.FinishedBefore)
	case "is":
		switch w.text {
		case "queued":
			p.Queued = true
		case "child":
			p.Children = true
		default:
			return fmt.Errorf("is:%s: must be is:queued or is:child", w.text)
		}
	default:
		return p.addTag(w)
	}
	return nil
}

func (p *parser) addTag(w word) error {
	if !tagPattern.MatchString(w.name) {
		return fmt.Errorf("%s: must be one of %s, or the key of a tag, which has a dot; put text with a colon in quotes",
			w.name, strings.Join(WordNames[:], ", "))
	}
	if p.Tags == nil {
		p.Tags = make(map[string]string)
	}
	if had, found := p.Tags[w.name]; found && had != w.text {
		return fmt.Errorf("%s: is given as %q and as %q", w.name, had, w.text)
	}
	p.Tags[w.name] = w.text
	return nil
}

// once sets a condition that a search may have once.
func once(field *string, w word) error {
	if *field != "" && *field != w.text {
		return fmt.Errorf("%s: is given as %q and as %q", w.name, *field, w.text)
	}
	*field = w.text
	return nil
}

func (p *parser) addState(text string) error {
	state := fabrictype.RunState(text)
	if !slices.Contains(States[:], state) {
		return fmt.Errorf("state:%s: must be one of running, succeeded, failed, cancelled, expired", text)
	}
	if !slices.Contains(p.States, state) {
		p.States = append(p.States, state)
	}
	return nil
}

// addFree adds a word without a name.
func (p *parser) addFree(w word) error {
	lower := strings.ToLower(w.text)
	switch {
	case w.quoted:
	case slices.Contains(States[:], fabrictype.RunState(lower)):
		return p.addState(lower)
	case isTime(lower):
		return p.addTime(w.text, &p.CreatedFrom, &p.CreatedBefore)
	}
	if w.text != "" {
		p.Terms = append(p.Terms, Term{Text: w.text})
	}
	return nil
}

// isTime reports whether a word is meant as a time.
func isTime(text string) bool {
	if from, to, found := strings.Cut(text, ".."); found {
		return (from == "" || isTime(from)) && (to == "" || isTime(to)) && from+to != ""
	}
	return text == "today" || text == "yesterday" || agoPattern.MatchString(text) || dayPattern.MatchString(text)
}

// addTime sets the bounds of a time.
func (p *parser) addTime(text string, from, before *time.Time) error {
	if !from.IsZero() || !before.IsZero() {
		return fmt.Errorf("%s: is another time, and a search has one", text)
	}
	first, second, isRange := strings.Cut(strings.ToUpper(text), "..")
	var err error
	if !isRange {
		*from, *before, err = p.span(first)
		return err
	}
	if first+second == "" {
		return fmt.Errorf("%s: neither begins nor ends", text)
	}
	if first != "" {
		if *from, _, err = p.span(first); err != nil {
			return err
		}
	}
	if second != "" {
		begin, end, err := p.span(second)
		if err != nil {
			return err
		}
		if *before = end; end.IsZero() { // of 2h, which lasts until now
			*before = begin
		}
	}
	if !from.IsZero() && !before.IsZero() && !from.Before(*before) {
		return fmt.Errorf("%s: begins at %s and ends at %s", text, from.Format(time.RFC3339), before.Format(time.RFC3339))
	}
	return nil
}

// unitOf are the units of times before now; days are counted in the calendar.
func unitOf(letter string) time.Duration {
	if letter == "H" {
		return time.Hour
	}
	return time.Minute
}

// span returns the beginning and the end of a time; the end is zero for one that lasts.
func (p *parser) span(text string) (from, before time.Time, err error) {
	year, month, day := p.now.Date()
	midnight := func(days int) time.Time {
		return time.Date(year, month, day+days, 0, 0, 0, 0, p.now.Location())
	}
	switch text {
	case "TODAY":
		return midnight(0), midnight(1), nil
	case "YESTERDAY":
		return midnight(-1), midnight(0), nil
	}
	if ago := agoPattern.FindStringSubmatch(strings.ToLower(text)); ago != nil {
		n, _ := strconv.Atoi(ago[1])
		switch ago[2] {
		case "w":
			n *= 7
			fallthrough
		case "d":
			return p.now.AddDate(0, 0, -n), time.Time{}, nil
		}
		return p.now.Add(-time.Duration(n) * unitOf(strings.ToUpper(ago[2]))), time.Time{}, nil
	}
	if at, err := time.ParseInLocation(time.DateOnly, text, p.now.Location()); err == nil {
		return at, at.AddDate(0, 0, 1), nil
	}
	for layout, length := range map[string]time.Duration{
		"2006-01-02T15:04": time.Minute, "2006-01-02T15:04:05": time.Second, time.RFC3339Nano: time.Millisecond,
	} {
		if at, err := time.ParseInLocation(layout, text, p.now.Location()); err == nil {
			return at, at.Add(length), nil
		}
	}
	return from, before, fmt.Errorf("%s: is not a time such as today, yesterday, 90m, 2h, 7d, 4w, 2026-11-28, "+
		"2026-11-28T15:04 or two of them with .. between them", strings.ToLower(text))
}
