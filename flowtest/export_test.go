package flowtest

import (
	"context"
	"regexp"
	"strconv"

	"github.com/redis/rueidis"
)

var statLine = regexp.MustCompile(`cmdstat_([a-z|]+):calls=(\d+)`)

// Commands returns how often the engine has executed each command.
func (t *T) Commands() map[string]int {
	client, err := rueidis.NewClient(t.place.store.ClientOption())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	text, err := client.Do(context.Background(), client.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for _, m := range statLine.FindAllStringSubmatch(text, -1) {
		counts[m[1]], _ = strconv.Atoi(m[2])
	}
	return counts
}

// CheckFakes checks the fakes as Run does at its end.
func (t *T) CheckFakes() { t.checkFakes() }

// ForgetFakes removes the fakes and faults of the test.
func (t *T) ForgetFakes() {
	t.record.mu.Lock()
	defer t.record.mu.Unlock()
	clear(t.record.fakes)
	t.record.faults = nil
}

// Updating reports whether golden files are written.
func Updating() bool { return updating() }
