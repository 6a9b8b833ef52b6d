package enginerpc

import (
	"errors"
	"fmt"
	"testing"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// Equal errors of many partitions are reported once, with their number.
func TestJoinSame_CountsEqualErrors(t *testing.T) {
	if err := JoinSame("partitions", []error{nil}); err != nil {
		t.Fatal(err)
	}
	err := JoinSame("partitions", []error{
		nil, enginecore.ErrFull, enginecore.ErrUnavailable, fmt.Errorf("%w", enginecore.ErrFull),
	})
	want := "2 partitions: " + enginecore.ErrFull.Error() + "\n" + enginecore.ErrUnavailable.Error()
	if err.Error() != want || !errors.Is(err, enginecore.ErrUnavailable) {
		t.Fatalf("got %q, want %q", err, want)
	}
}
