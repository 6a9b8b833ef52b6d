package engine

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// FrameNumber identifies a frame of an attempt, so that a reader can drop a frame that a worker has sent twice. Frames
// are counted per lease. The zero value means that a frame has no number.
type FrameNumber struct {
	Epoch enginecore.LeaseEpoch // 0: it has none
	Count int64
}

// frameSource begins the source of a frame that a worker has numbered.
const frameSource = "worker "

// Source returns the source of a frame with the number, which [ParseFrameSource] reads.
func (n FrameNumber) Source() string { return fmt.Sprintf("%s%d.%d", frameSource, n.Epoch, n.Count) }

// ParseFrameSource parses the output of [FrameNumber.Source]. Any other text yields the zero value.
func ParseFrameSource(text string) FrameNumber {
	text, numbered := strings.CutPrefix(text, frameSource)
	epoch, count, _ := strings.Cut(text, ".")
	e, err1 := strconv.ParseInt(epoch, 10, 64)
	n, err2 := strconv.ParseInt(count, 10, 64)
	if !numbered || err1 != nil || err2 != nil {
		return FrameNumber{}
	}
	return FrameNumber{enginecore.LeaseEpoch(e), n}
}
