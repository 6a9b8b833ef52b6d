package engine

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// FrameNumber identifies a frame of an attempt, so that a reader can drop a frame that a worker has sent twice. Frames
// are counted per lease. The zero value is no number.
type FrameNumber struct {
	Epoch enginecore.LeaseEpoch // 0: it has none
	Count int64
}

// String returns the form in which a frame carries its number, which [ParseFrameNumber] reads.
func (n FrameNumber) String() string { return fmt.Sprintf("%d.%d", n.Epoch, n.Count) }

// ParseFrameNumber reads what [FrameNumber.String] writes. Malformed text yields the zero value.
func ParseFrameNumber(text string) FrameNumber {
	epoch, count, _ := strings.Cut(text, ".")
	e, err1 := strconv.ParseInt(epoch, 10, 64)
	n, err2 := strconv.ParseInt(count, 10, 64)
	if err1 != nil || err2 != nil {
		return FrameNumber{}
	}
	return FrameNumber{enginecore.LeaseEpoch(e), n}
}
