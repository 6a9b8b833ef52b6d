package contractapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// octets are bytes, in JSON an array of numbers.
type octets []byte

// UnmarshalJSON implements json.Unmarshaler.
func (o *octets) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*o = nil
		return nil
	}
	var numbers []uint16 // one of bytes would be base64
	if err := json.Unmarshal(text, &numbers); err != nil {
		return err
	}
	*o = make([]byte, len(numbers))
	for i, n := range numbers {
		if n > math.MaxUint8 {
			return fmt.Errorf("%d is not a byte", n)
		}
		(*o)[i] = byte(n)
	}
	return nil
}

// Bounds of numbers: larger ones would wrap around, or be rounded to another number.
const (
	// maxExact is the largest number with which scripts of the engine count exactly.
	maxExact = 1<<53 - 1
	// maxSpan is the longest time span, in milliseconds: 100 years.
	maxSpan = 100 * 366 * 24 * 3600 * 1000
)

// within refuses a number of a request that is larger than most.
func within(name string, n uint64, most int64) (int64, error) {
	if n > uint64(most) {
		return 0, invalid("%s: must be at most %d, got: %d", name, most, n)
	}
	return int64(n), nil
}

// bounded is a number of a request with its bound.
type bounded struct {
	name string
	// given is the number of the request; nil if it has none.
	given *uint64
	most  int64
	into  *int64
}

// readNumbers reads numbers of a request. Those that it does not have stay as they are.
func readNumbers(list ...bounded) (err error) {
	for _, n := range list {
		if n.given == nil {
			continue
		}
		if *n.into, err = within(n.name, *n.given, n.most); err != nil {
			return err
		}
	}
	return nil
}

// millis is a time in milliseconds of Unix time.
type millis int64

func (m millis) time() time.Time { return time.UnixMilli(int64(m)).UTC() }

// timeOf returns the zero time without a value.
func timeOf(m *millis) time.Time {
	if m == nil {
		return time.Time{}
	}
	return m.time()
}

// lane is a lane id that is checked when it is decoded.
type lane enginecore.LaneID

// UnmarshalJSON implements json.Unmarshaler.
func (l *lane) UnmarshalJSON(text []byte) error {
	var name string
	if err := json.Unmarshal(text, &name); err != nil {
		return err
	}
	id, err := keyspace.ParseLaneID(name)
	*l = lane(id)
	return err
}

// executionID is an execution id that is checked when it is decoded.
type executionID enginecore.ExecutionID

// UnmarshalJSON implements json.Unmarshaler.
func (e *executionID) UnmarshalJSON(text []byte) error {
	var name string
	if err := json.Unmarshal(text, &name); err != nil {
		return err
	}
	id, err := keyspace.ParseExecutionID(name)
	*e = executionID(id)
	return err
}

func (e executionID) id() enginecore.ExecutionID { return enginecore.ExecutionID(e) }

// uuidText is the text of a UUID that is checked when it is decoded.
type uuidText string

// UnmarshalJSON implements json.Unmarshaler.
func (u *uuidText) UnmarshalJSON(text []byte) error {
	var name string
	if err := json.Unmarshal(text, &name); err != nil {
		return err
	}
	id, err := keyspace.ParseFlowID(name)
	*u = uuidText(id)
	return err
}

// badJSON is the error of a body that the route does not accept.
func badJSON(status int) error { return state(status, "invalid JSON: %s", http.StatusText(status)) }

// decode reads the body, which must have the required fields.
func (c *call) decode(into any, required ...string) error {
	kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" && !(strings.HasPrefix(kind, "application/") &&
		strings.HasSuffix(kind, "+json")) {
		return badJSON(http.StatusUnsupportedMediaType)
	}
	text, err := io.ReadAll(c.r.Body)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return &stated{http.StatusRequestEntityTooLarge, fields{
			"error": "payload_too_large", "limit_bytes": c.route.MaxBody, "route": c.route.Pattern,
		}}
	}
	if err != nil || !json.Valid(text) {
		return badJSON(http.StatusBadRequest)
	}
	if err := activityspec.CheckJSON(text); err != nil {
		return state(http.StatusBadRequest, "invalid JSON: %v", err)
	}
	var present map[string]json.RawMessage
	if json.Unmarshal(text, &present) != nil {
		return badJSON(http.StatusUnprocessableEntity)
	}
	for _, name := range required {
		if value := present[name]; len(value) == 0 || string(value) == "null" {
			return badJSON(http.StatusUnprocessableEntity)
		}
	}
	if err := json.Unmarshal(text, into); err != nil {
		return badJSON(http.StatusUnprocessableEntity)
	}
	return nil
}

// execution returns the execution id of the path.
func (c *call) execution() (enginecore.ExecutionID, error) {
	id, err := keyspace.ParseExecutionID(c.r.PathValue("id"))
	if err != nil {
		return "", invalid("invalid execution_id: %v", err)
	}
	return id, c.exists(id)
}

// exists refuses executions of partitions that the deployment does not have.
func (c *call) exists(ids ...enginecore.ExecutionID) error {
	for _, id := range ids {
		if err := c.core.CheckExecution(id); err != nil {
			return invalid("%v", err)
		}
	}
	return nil
}

// flow returns the flow id of the path.
func (c *call) flow() (enginecore.FlowID, error) {
	id, err := keyspace.ParseFlowID(c.r.PathValue("id"))
	if err != nil {
		return "", invalid("invalid flow_id: %v", err)
	}
	return id, nil
}

// budget returns the budget id of the path.
func (c *call) budget() (enginecore.BudgetID, error) {
	id, err := keyspace.ParseBudgetID(c.r.PathValue("id"))
	if err != nil {
		return "", invalid("invalid budget_id: %v", err)
	}
	return id, nil
}

// same checks that the id of the path equals the id of the body.
func same(name, path, body string) error {
	if path != body {
		return invalid("path %s does not match body %s", name, name)
	}
	return nil
}

// number reads a parameter of the query.
func number(query url.Values, name string, absent, least, most int64) (int64, error) {
	text := query.Get(name)
	if text == "" {
		return absent, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, invalid("%s: must be a number from %d to %d, got: %.40q", name, least, most, text)
	}
	return n, nil
}

// known refuses parameters of the query that the route does not take.
func known(query url.Values, names ...string) error {
	for name := range query {
		if !slices.Contains(names, name) {
			return invalid("unknown parameter %.40q; known are %s", name, fmt.Sprint(names))
		}
	}
	return nil
}

// set adds a field with a time unless there is none.
func (c *call) set(to fields, name string, t time.Time) {
	if !t.IsZero() {
		to[name] = t.UnixMilli()
	}
}
