package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yamlOf returns the YAML of the JSON of a value, with its names and their order.
func yamlOf(value any) (string, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	node, err := nodeOf(decoder)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(node); err != nil {
		return "", err
	}
	return escapeYAML(out.String()), encoder.Close()
}

// nodeOf reads a JSON value as a node of YAML.
func nodeOf(decoder *json.Decoder) (*yaml.Node, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch value := token.(type) {
	case json.Delim:
		node := &yaml.Node{Kind: yaml.SequenceNode}
		if value == '{' {
			node.Kind = yaml.MappingNode
		}
		for decoder.More() {
			child, err := nodeOf(decoder)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, child)
			if node.Kind == yaml.MappingNode {
				if child, err = nodeOf(decoder); err != nil {
					return nil, err
				}
				node.Content = append(node.Content, child)
			}
		}
		if len(node.Content) == 0 {
			node.Style = yaml.FlowStyle
		}
		_, err := decoder.Token() // the end of it
		return node, err
	case string:
		return textNode(value), nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: value.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: strconv.FormatBool(value)}, nil
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
	}
}

// words are texts without quotes that some readers of YAML take for booleans.
var words = []string{"y", "n", "yes", "no", "on", "off"}

// textNode returns a node of a text. One that would act on a terminal has quotes, in which it can be escaped.
func textNode(text string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	if strings.ContainsFunc(text, isHidden) || slices.Contains(words, strings.ToLower(text)) {
		node.Style = yaml.DoubleQuotedStyle
	}
	return node
}

// escapeYAML escapes hidden characters, which are in double quotes only.
func escapeYAML(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case !isHidden(r), r == '\n':
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
