package contract

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/server/internal/bounds"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

const (
	defaultRead = 100
	defaultTail = 50
	maxFrames   = 1000
	// maxTail is how long a request waits for frames, in milliseconds.
	maxTail = 30_000
)

var (
	position = regexp.MustCompile(`^[0-9]{1,20}(-[0-9]{1,20})?$`)
	concrete = regexp.MustCompile(`^[0-9]{1,20}-[0-9]{1,20}$`)
)

// attempt returns the execution and the attempt of the path.
func (c *call) attempt() (enginecore.ExecutionID, enginecore.AttemptIndex, error) {
	id, err := c.execution()
	if err != nil {
		return "", 0, err
	}
	index, err := strconv.ParseUint(c.r.PathValue("index"), 10, 32)
	if err != nil || index > math.MaxInt32 {
		return "", 0, invalid("invalid attempt index: %.40q", c.r.PathValue("index"))
	}
	return id, enginecore.AttemptIndex(index), nil
}

// enterStream takes one permit of the pool of stream operations.
func (c *call) enterStream() (leave func(), err error) {
	if c.config.Stopping != nil && c.config.Stopping.Err() != nil {
		return nil, errStopping
	}
	leave, err = c.streams.Enter(login.From(c.ctx))
	var most *bounds.Full
	if errors.As(err, &most) {
		return nil, full("stream_ops", most.Most)
	}
	return leave, err
}

// bound reads an end of a range: the word, or a position.
func bound(query url.Values, name, word string) (string, error) {
	text := query.Get(name)
	if text == "" && !query.Has(name) || text == word {
		return "", nil
	}
	if !position.MatchString(text) {
		return "", invalid("%s: must be start, end, or an id such as 1700000000000-0, got: %.40q", name, text)
	}
	return text, nil
}

func readStream(c *call) error {
	id, index, err := c.attempt()
	if err != nil {
		return err
	}
	query := c.r.URL.Query()
	limit, err := number(query, "limit", defaultRead, 1, maxFrames)
	if err != nil {
		return err
	}
	from, err := bound(query, "from", "start")
	if err != nil {
		return err
	}
	to, err := bound(query, "to", "end")
	if err != nil {
		return err
	}
	leave, err := c.enterStream()
	if err != nil {
		return err
	}
	defer leave()
	frames, err := c.operator.ReadStream(c.ctx, id, index, from, to, int(limit))
	if err != nil {
		return err
	}
	return c.replyFrames(frames)
}

func tailStream(c *call) error {
	id, index, err := c.attempt()
	if err != nil {
		return err
	}
	query := c.r.URL.Query()
	limit, err := number(query, "limit", defaultTail, 1, maxFrames)
	if err != nil {
		return err
	}
	wait, err := number(query, "block_ms", 0, 0, maxTail)
	if err != nil {
		return err
	}
	after := query.Get("after")
	if !query.Has("after") {
		after = "0-0"
	}
	if !concrete.MatchString(after) {
		return invalid("after: must be a concrete id such as 0-0, got: %.40q", after)
	}
	leave, err := c.enterStream()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := c.stopped()
	defer cancel()
	frames, err := c.operator.TailStream(ctx, id, index, after, duration(wait), int(limit))
	if errors.Is(err, errStopping) {
		frames, err = admin.Frames{}, nil // it is as if the time was up
	}
	if err != nil {
		return err
	}
	return c.replyFrames(frames)
}

func (c *call) replyFrames(frames admin.Frames) error {
	list := []fields{}
	for _, f := range frames.Frames {
		values := fields{}
		for name, value := range f.Fields {
			values[name] = string(value)
		}
		list = append(list, fields{"id": f.ID, "fields": values})
	}
	out := fields{"frames": list, "count": len(list)}
	c.set(out, "closed_at", frames.ClosedAt)
	if frames.ClosedReason != "" {
		out["closed_reason"] = frames.ClosedReason
	}
	return c.reply(http.StatusOK, out)
}
