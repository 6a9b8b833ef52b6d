package submit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// StoredLimit is one limit of an execution as its record keeps it, in JSON, with the values that a call to its quota
// needs.
type StoredLimit struct {
	Quota    enginecore.QuotaPolicyID `json:"q"`
	Name     string                   `json:"n"`
	Key      string                   `json:"k,omitempty"`
	Rate     int64                    `json:"r,omitempty"`
	WindowMS int64                    `json:"w,omitempty"`
	Cap      int64                    `json:"c,omitempty"`
}

// Exchange returns a call to the limit's quota in partition p that acquires and returns nothing yet.
func (l StoredLimit) Exchange(p keyspace.Partition) enginerpc.ExchangeCall {
	return enginerpc.ExchangeCall{
		Partition: p, QuotaPolicyID: l.Quota, Name: l.Name, Key: l.Key, Rate: l.Rate, WindowMs: l.WindowMS, Cap: l.Cap,
	}
}

// encodeLimits returns the text by which the record of an execution names its limits, in the one order in which all
// workers acquire their permits. The words are for messages to people, on one line.
func encodeLimits(limits []StoredLimit, words string) (string, error) {
	data, err := json.Marshal(limits)
	if err != nil {
		return "", err
	}
	return enginerpc.LimitsText{Count: int64(len(limits)), Words: words, Limits: data}.Text()
}

// DecodeLimits decodes the limits of an execution from the text that encodeLimits makes.
func DecodeLimits(text string) ([]StoredLimit, error) {
	stored, _ := enginerpc.ParseLimitsText(text)
	var limits []StoredLimit
	if err := json.Unmarshal(stored.Limits, &limits); err != nil {
		return nil, fmt.Errorf("limits of the execution: %w", err)
	}
	return limits, nil
}

// MaxLimitKey bounds the key of a limit, in bytes.
const MaxLimitKey = 256

// hasFixedLimits reports whether a node has limits, and none of them takes a key from the input of a run. The limits of
// a node with a child run apply to its items.
func hasFixedLimits(n *flowgraph.Node) bool {
	keyed := func(l activityspec.Limit) bool { return len(l.KeyFrom) > 0 }
	return len(n.Limits) > 0 && !delegates(n) && !slices.ContainsFunc(n.Limits, keyed)
}

// limitsOf resolves the limits of every node of a flow that has some which its graph does not have (see
// hasFixedLimits), by the name of the node.
func limitsOf(
	namespace keyspace.Namespace, g *flowgraph.Graph, input []byte,
) (map[string]enginerpc.SubmitLimit, error) {
	var byNode map[string]enginerpc.SubmitLimit
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if len(n.Limits) == 0 || hasFixedLimits(n) {
			continue
		}
		limit, err := limitsOfNode(namespace, n, input, g.Codec)
		if err != nil {
			return nil, fmt.Errorf("flow %s: node %s: %w", g.Name, n.Name, err)
		}
		if delegates(n) {
			continue // the limits apply to its items, but their keys are known to be there
		}
		if byNode == nil {
			byNode = make(map[string]enginerpc.SubmitLimit)
		}
		byNode[n.Name] = limit
	}
	return byNode, nil
}

func limitsOfNode(
	namespace keyspace.Namespace, n *flowgraph.Node, input []byte, codec string,
) (enginerpc.SubmitLimit, error) {
	var limits []StoredLimit
	var words []string
	for _, spec := range n.Limits {
		key, err := limitKey(spec, input, codec)
		if err != nil {
			return enginerpc.SubmitLimit{}, err
		}
		limits = append(limits, StoredLimit{
			Quota: keyspace.QuotaIDFor(namespace, spec.Name, key), Name: spec.Name, Key: key,
			Rate:     int64(spec.AtMost),
			WindowMS: spec.Per.Milliseconds(), Cap: int64(spec.AtOnce),
		})
		words = append(words, describeLimit(spec, key))
	}
	slices.SortFunc(limits, func(a, b StoredLimit) int { return strings.Compare(string(a.Quota), string(b.Quota)) })
	text, err := encodeLimits(limits, "waits for room under "+strings.Join(words, " and "))
	return enginerpc.SubmitLimit{Text: text, QuotaPolicyID: string(limits[0].Quota)}, err
}

func describeLimit(spec activityspec.Limit, key string) string {
	if key == "" {
		return fmt.Sprintf("limit %q: %s", spec.Name, spec)
	}
	return fmt.Sprintf("limit %q of %q: %s", spec.Name, strings.Map(printable, key), spec)
}

// printable keeps a key on one line.
func printable(r rune) rune {
	if r < ' ' {
		return ' '
	}
	return r
}

// limitKey reads the key of a limit from the input of a run.
func limitKey(spec activityspec.Limit, input []byte, codec string) (string, error) {
	if len(spec.KeyFrom) == 0 {
		return "", nil
	}
	key, err := keyFrom(spec.KeyFrom, input, codec)
	if err != nil {
		return "", fmt.Errorf("%w: no key for a limit: limit %q takes it from %w", engine.ErrInvalid, spec.Name, err)
	}
	return key, nil
}

// fairKey reads the key by which a run shares lanes; "" when its flow has none.
func fairKey(g *flowgraph.Graph, input []byte) (string, error) {
	if len(g.FairBy) == 0 {
		return "", nil
	}
	key, err := keyFrom(g.FairBy, input, g.Codec)
	if err != nil {
		return "", fmt.Errorf("flow %s: %w: no key to share by: it is taken from %w", g.Name, engine.ErrInvalid, err)
	}
	return key, nil
}

// keyFrom reads a plain value at a path of field names from an input. Its errors begin with the path.
func keyFrom(fields []string, input []byte, codec string) (string, error) {
	path := strings.Join(fields, ".")
	if codec != StoredJSONCodec {
		return "", fmt.Errorf("%s, but the input is %s, not JSON", path, codec)
	}
	value := json.RawMessage(input)
	for _, field := range fields {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(value, &members); err != nil || members[field] == nil {
			return "", fmt.Errorf("%s, which the input does not have", path)
		}
		value = members[field]
	}
	key, err := plainKey(value)
	if err != nil {
		return "", fmt.Errorf("%s, %w", path, err)
	}
	return key, nil
}

// plainKey is a text as it is, and a number or boolean as it is written.
func plainKey(value json.RawMessage) (string, error) {
	value = bytes.TrimSpace(value)
	var text string
	switch value[0] {
	case '"':
		if err := json.Unmarshal(value, &text); err != nil {
			return "", err
		}
	case '{', '[', 'n':
		return "", errors.New("which is not a text, number or boolean")
	default:
		text = string(value)
	}
	if text == "" || len(text) > MaxLimitKey {
		return "", fmt.Errorf("which has %d bytes, must have 1 to %d", len(text), MaxLimitKey)
	}
	return text, nil
}
