package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"time"
)

// localModel serves a deterministic model by the chat-completions protocol. Its reply is a function of the conversation
// alone: it searches for the question, multiplies days by a day rate less a discount, writes a note if the question
// requires one, and answers.
type localModel struct {
	requests atomic.Int64
	// fault chooses the fault of the request of that number, counted from 1. Nil is none.
	fault func(request int64) modelFault
}

// modelFault is a fault of a request.
type modelFault int

const (
	noFault     modelFault = iota
	unavailable            // refused with status 503
	brokenOff              // the connection is closed after half of the text
)

// serveLocalModel serves the model on a free port of this machine, and returns its URL and a function that ends it.
func serveLocalModel(m *localModel) (base string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: m, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	return "http://" + listener.Addr().String() + "/v1", func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if errors.Is(server.Shutdown(ctx), context.DeadlineExceeded) {
			_ = server.Close()
		}
		<-ended
	}, nil
}

// ServeHTTP answers POST /v1/chat/completions with a stream of events.
func (m *localModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" {
		http.NotFound(w, r)
		return
	}
	var request chatRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 8<<20)).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if !request.Stream {
		http.Error(w, "stream: must be true", http.StatusBadRequest)
		return
	}
	number, fault := m.requests.Add(1), noFault
	if m.fault != nil {
		fault = m.fault(number)
	}
	if fault == unavailable {
		http.Error(w, "overloaded", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	events := completion(request.Messages)
	for i, event := range events {
		if fault == brokenOff && i == len(events)/2 {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, "data: %s\n\n", event)
		_ = http.NewResponseController(w).Flush()
	}
}

// completion is the reply to a conversation as events.
func completion(conversation []Message) []string {
	reply := decide(conversation)
	var events []string
	event := func(c chunk) {
		data, _ := json.Marshal(c) // has only texts and numbers
		events = append(events, string(data))
	}
	part := func(d delta) { event(chunk{Choices: []choice{{Delta: d}}}) }
	part(delta{Role: roleAssistant})
	for _, word := range strings.SplitAfter(reply.Content, " ") {
		part(delta{Content: word})
	}
	for i, call := range reply.ToolCalls {
		first := callDelta{Index: i, ID: call.ID, Type: call.Type, Function: FunctionCall{Name: call.Function.Name}}
		part(delta{ToolCalls: []callDelta{first}})
		for _, piece := range strings.SplitAfter(call.Function.Arguments, " ") {
			part(delta{ToolCalls: []callDelta{{Index: i, Function: FunctionCall{Arguments: piece}}}})
		}
	}
	reason := "stop"
	if len(reply.ToolCalls) > 0 {
		reason = "tool_calls"
	}
	event(chunk{Choices: []choice{{FinishReason: &reason}}})
	usage := Usage{Prompt: tokens(conversation...), Completion: tokens(reply)}
	usage.Total = usage.Prompt + usage.Completion
	event(chunk{Choices: []choice{}, Usage: &usage})
	return append(events, streamEnd)
}

// tokens counts words, which are the tokens of this model.
func tokens(messages ...Message) int64 {
	n := 0
	for _, m := range messages {
		n += 1 + len(strings.Fields(m.Content))
		for _, call := range m.ToolCalls {
			n += 1 + len(strings.Fields(call.Function.Arguments))
		}
	}
	return int64(n)
}

var (
	daysAsked = regexp.MustCompile(`(\d+) days?`)
	dayRate   = regexp.MustCompile(`(\d+) euros a day`)
	discount  = regexp.MustCompile(`discount of (\d+) %`)
)

// decide returns the next message of the model.
func decide(conversation []Message) Message {
	question, results, calls := "", map[string]string{}, map[string]string{}
	for _, m := range conversation {
		switch m.Role {
		case roleUser:
			question = m.Content
		case roleAssistant:
			for _, call := range m.ToolCalls {
				calls[call.ID] = call.Function.Name
			}
		case roleTool:
			results[calls[m.ToolCallID]] = m.Content
		}
	}
	say := func(text string, asked ...ToolCall) Message {
		for i := range asked {
			asked[i].ID = fmt.Sprintf("call_%d", len(calls)+i+1)
		}
		return Message{Role: roleAssistant, Content: text, ToolCalls: asked}
	}
	found, searched := results[searchName]
	if !searched {
		return say("I look for what the texts say about this.",
			localCall(listName, struct{}{}), localCall(searchName, searchArguments{Query: question}))
	}
	answer := "The texts say:\n" + found
	days, rate, less := number(daysAsked, question), number(dayRate, found), number(discount, found)
	if days != "" && rate != "" && less != "" && strings.Contains(question, "member") {
		price, calculated := results[calculateName]
		if !calculated {
			return say("The texts have a day rate and a discount for members. I calculate the price.",
				localCall(calculateName, calculateArguments{
					Expression: fmt.Sprintf("%s * %s * (100 - %s) / 100", days, rate, less),
				}))
		}
		answer = fmt.Sprintf("%s days at %s euros a day, less the discount of %s %% for members, are %s euros.",
			days, rate, less, price)
	}
	if strings.Contains(question, "note") {
		written, asked := results[writeName]
		if !asked {
			return say("I would like to write that to a note.",
				localCall(writeName, writeArguments{File: "answer.md", Text: answer}))
		}
		answer += " The note: " + written + "."
	}
	return say(answer)
}

// localCall is a call without an id.
func localCall(name string, arguments any) ToolCall {
	data, _ := json.Marshal(arguments) // has only texts
	return ToolCall{Type: "function", Function: FunctionCall{Name: name, Arguments: string(data)}}
}

// number returns the number that a text states, empty if there is none.
func number(pattern *regexp.Regexp, text string) string {
	if found := pattern.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}
