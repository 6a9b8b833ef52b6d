package enginerpc

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
)

// ErrText is wrapped by the error of a Text method if a value contains the text that ends it, so that it would be read
// back as another one.
var ErrText = errors.New("value does not fit into its text")

// checkPart returns an error if a part of a text contains its terminator.
func checkPart(text, name, value, end string) error {
	if !strings.Contains(value, end) {
		return nil
	}
	return fmt.Errorf("%w: %s of %s contains %q: %q", ErrText, name, text, end, value)
}

// markText returns the mark if it is set, else "".
func markText(set bool, mark string) string {
	if set {
		return mark
	}
	return ""
}

func parseInt[T ~int64 | ~uint64 | ~int | ~uint32](text string) (T, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return T(n), err == nil
}

// parseMillis reads a duration. One that time.Duration cannot hold is none.
func parseMillis(text string) (time.Duration, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	d := time.Duration(n) * time.Millisecond
	return d, err == nil && d.Milliseconds() == n
}

func parseTime(text string) (time.Time, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return recordtext.Time(n).Local(), err == nil
}

// parsePartition reads the number of a partition.
func parsePartition(family keyspace.Family, text string) (keyspace.Partition, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return keyspace.Partition{Family: family, Index: uint16(n)}, err == nil
}

// parseAnyPartition parses a text of partitionText.
func parseAnyPartition(text string) (keyspace.Partition, bool) {
	if number, ok := strings.CutPrefix(text, "q"); ok {
		return parsePartition(keyspace.QuotaFamily, number)
	}
	if number, ok := strings.CutPrefix(text, "b"); ok {
		return parsePartition(keyspace.BudgetFamily, number)
	}
	return parsePartition(keyspace.FlowFamily, text)
}

// partitionText returns the number of a partition, after a q for a partition of quotas and a b for one of budgets.
func partitionText(p keyspace.Partition) string {
	number := strconv.Itoa(int(p.Index))
	switch p.Family {
	case keyspace.QuotaFamily:
		return "q" + number
	case keyspace.BudgetFamily:
		return "b" + number
	default:
		return number
	}
}

// manyPrefix begins a message that holds several.
const manyPrefix = "many "

// SplitMany yields the messages that one published on channel.done holds: itself, or the messages after "many ", each
// with its length in bytes and a blank before it. A malformed message and all after it are left out.
func SplitMany(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		rest, many := strings.CutPrefix(text, manyPrefix)
		if !many {
			yield(text)
			return
		}
		for rest != "" {
			length, behind, _ := strings.Cut(rest, " ")
			n, err := strconv.Atoi(length)
			if err != nil || n < 0 || n > len(behind) || !yield(behind[:n]) {
				return
			}
			rest = behind[n:]
		}
	}
}
