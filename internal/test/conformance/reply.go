package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// Replies are int64, string, nil, []any or errorReply; in recorded ones the
// strings are templates.

// errorReply is an error with its class, the only part that is compared.
type errorReply struct {
	Class string `json:"error"`
	text  string
}

func decodeReply(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return normalizeReply(v)
}

func normalizeReply(v any) (any, error) {
	switch v := v.(type) {
	case nil, string:
		return v, nil
	case json.Number:
		return v.Int64()
	case []any:
		for i := range v {
			var err error
			if v[i], err = normalizeReply(v[i]); err != nil {
				return nil, err
			}
		}
		return v, nil
	case map[string]any:
		if class, ok := v["error"].(string); ok && len(v) == 1 {
			return errorReply{Class: class}, nil
		}
	}
	return nil, fmt.Errorf("a reply cannot be %v", v)
}

// replyOf turns a server reply into its RESP2 form. Only errors of the
// connection are returned as errors.
func replyOf(result rueidis.RedisResult) (any, error) {
	msg, err := result.ToMessage()
	if err != nil {
		if rueidis.IsRedisNil(err) {
			return nil, nil
		}
		if e, ok := rueidis.IsRedisErr(err); ok {
			return newErrorReply(e.Error()), nil
		}
		return nil, err
	}
	return fromMessage(msg)
}

func fromMessage(msg rueidis.RedisMessage) (any, error) {
	switch {
	case msg.IsNil():
		return nil, nil
	case msg.IsInt64():
		return msg.AsInt64()
	case msg.IsString():
		return msg.ToString()
	case msg.IsFloat64():
		n, err := msg.AsFloat64()
		return formatNumber(n), err
	case msg.IsBool():
		b, err := msg.AsBool()
		if b {
			return int64(1), err
		}
		return int64(0), err
	case msg.IsArray(), msg.IsMap():
		values, err := msg.ToArray()
		if msg.IsMap() {
			return nil, errors.New("map replies are not part of the format")
		}
		if err != nil {
			return nil, err
		}
		list := make([]any, len(values))
		for i, v := range values {
			if list[i], err = fromMessage(v); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	if err := msg.Error(); err != nil {
		if e, ok := rueidis.IsRedisErr(err); ok {
			return newErrorReply(e.Error()), nil
		}
		return nil, err
	}
	return msg.ToString()
}

// newErrorReply classifies an error message. Servers add the place in the
// script to errors that broke off a function, and to no others.
func newErrorReply(text string) errorReply {
	if strings.Contains(text, " script: ") || strings.Contains(text, "user_function:") ||
		strings.Contains(text, "user_script:") {
		return errorReply{Class: "SCRIPT", text: text}
	}
	class, _, _ := strings.Cut(text, " ")
	return errorReply{Class: class, text: text}
}

// fitsReply compares a reply with the recorded one.
func (p *player) fitsReply(step *Step, want, got any) bool {
	if step.Unordered != nil {
		got = sortGroups(got, step.Unordered.From, step.Unordered.Width)
	}
	list, ok := want.([]any)
	if !ok || len(step.ToleranceMS) == 0 {
		return p.fitsElement(want, got)
	}
	other, ok := got.([]any)
	if !ok || len(other) != len(list) {
		return false
	}
	for i := range list {
		if tolerance, ok := step.ToleranceMS[strconv.Itoa(i)]; ok && fitsDuration(list[i], other[i], tolerance) {
			continue
		}
		if !p.fitsElement(list[i], other[i]) {
			return false
		}
	}
	return true
}

func (p *player) fitsElement(want, got any) bool {
	switch w := want.(type) {
	case string:
		g, ok := got.(string)
		return ok && p.fitsText(w, g, nil)
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !p.fitsElement(w[i], g[i]) {
				return false
			}
		}
		return true
	case errorReply:
		g, ok := got.(errorReply)
		return ok && g.Class == w.Class
	}
	return want == got
}

// fitsDuration compares an element of tolerance_ms. It keeps its type: the
// number 1 and the text "1" are different replies.
func fitsDuration(want, got any, tolerance float64) bool {
	number := func(v any) (float64, string, bool) {
		switch v := v.(type) {
		case int64:
			return float64(v), "int", true
		case string:
			n, err := strconv.ParseFloat(v, 64)
			return n, "text", err == nil && decimalNumber.MatchString(v)
		}
		return 0, "", false
	}
	w, wt, ok1 := number(want)
	g, gt, ok2 := number(got)
	return ok1 && ok2 && wt == gt && math.Abs(w-g) <= tolerance
}

// sortGroups orders the groups of an unordered reply by their first element,
// as recorded ones are.
func sortGroups(reply any, from, width int) any {
	list, ok := reply.([]any)
	if !ok || width < 1 || from >= len(list) || (len(list)-from)%width != 0 {
		return reply
	}
	sorted := append([]any(nil), list[:from]...)
	var groups [][]any
	for i := from; i < len(list); i += width {
		groups = append(groups, list[i:i+width])
	}
	sort.SliceStable(groups, func(i, j int) bool {
		return fmt.Sprint(groups[i][0]) < fmt.Sprint(groups[j][0])
	})
	for _, g := range groups {
		sorted = append(sorted, g...)
	}
	return sorted
}
