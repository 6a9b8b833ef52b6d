package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
)

// Names by which others find parts of the flow.
const (
	flowName   = "agent"
	turnsNode  = "turns"  // of the flow
	modelNode  = "model"  // of a turn
	toolsNode  = "tools"  // of a turn
	budgetName = "model"  // of a run
	dimension  = "tokens" // of the budget
)

// Kinds of the frames that the node of the model emits.
const (
	tokenFrame = "token" // a string
	callFrame  = "call"  // a ToolCall
)

const (
	// maxTurns bounds how often the model is called.
	maxTurns = 12
	// approvalTime is how long a person may take before the call is escalated; it continues to wait.
	approvalTime = 24 * time.Hour
)

// Conversation is the state of the loop.
type Conversation struct {
	Messages []Message `json:"messages"`
}

// Answer is the result of a run.
type Answer struct {
	Text string `json:"text"`
	// Calls are the tool calls in the order of their execution.
	Calls []Called `json:"calls"`
}

// Called is a tool call with its result.
type Called struct {
	Tool      string `json:"tool"`
	Arguments string `json:"arguments"`
	Result    string `json:"result"`
}

// Signals of a person's answer to a call that changes something.
const (
	approve = "approve"
	reject  = "reject"
)

// decisionSchema is the schema that an activity.Decision must satisfy before the run continues.
var decisionSchema = json.RawMessage(`{"type":"object","required":["choice","by"],
	"properties":{"choice":{"enum":["approve","reject"]},"by":{"type":"string","minLength":1}}}`)

// ToolInput is the input of a node that executes a call.
type ToolInput struct {
	Call ToolCall `json:"call"`
	// Decision is nil for a call that needs none.
	Decision *activity.Decision `json:"decision,omitempty"`
}

// RecordInput is the input of the node that adds the results of tools to the conversation.
type RecordInput struct {
	Conversation Conversation `json:"conversation"`
	Results      []Message    `json:"results"`
}

// agent has the dependencies of its activities: a model and tools.
type agent struct {
	client *modelClient
	tools  map[string]tool

	call   *activity.Activity[ToolInput, Message]
	record *activity.Activity[RecordInput, Conversation]
}

func newAgent(client *modelClient, tools map[string]tool) *agent {
	a := &agent{client: client, tools: tools}
	a.call = activity.New("agent.tool", a.Call, retry)
	a.record = activity.New("agent.record", Record)
	return a
}

var retry = activity.Retry(activity.RetryPolicy{First: 200 * time.Millisecond, Max: 10 * time.Second, Attempts: 4})

// Flow declares the agent: turns until the model requests no more tools.
func (a *agent) Flow(budget int64) (*flow.Definition[string, Answer], error) {
	model := activity.New("agent.model", a.Model, retry, activity.StartToClose(5*time.Minute))
	plan := activity.New("agent.plan", a.Plan)
	t := flow.New[Conversation, Conversation]("agent-turn",
		flow.Describe("Asks the model once and runs the tools it calls."))
	replied := flow.Node(t, modelNode, model, t.Input())
	flow.Return(t, flow.Expand(t, toolsNode, plan, replied, flow.MayRun(a.call, a.record), flow.ExpandDepth(1)))
	turn, err := t.Build()
	if err != nil {
		return nil, err
	}
	f := flow.New[string, Answer](flowName, flow.Describe("Answers a question with a model that calls tools."),
		flow.Budget(budgetName, flow.BudgetConfig{Hard: map[string]int64{dimension: budget}}))
	begun := flow.Node(f, "begin", activity.New("agent.begin", Begin), f.Input())
	spoken := flow.Loop(f, turnsNode, turn, activity.New("agent.done", Done), begun, maxTurns)
	flow.Return(f, flow.Node(f, "answer", activity.New("agent.answer", Conclude), spoken))
	return f.Build()
}

const instructions = "Answer the question of the user from the texts that the tools find. Calculate with the tool. " +
	"Write notes only when you are asked to."

// Begin makes a conversation of a question.
func Begin(_ context.Context, question string) (Conversation, error) {
	if strings.TrimSpace(question) == "" {
		return Conversation{}, activity.NonRetryable(errors.New("question: must not be empty"))
	}
	return Conversation{Messages: []Message{
		{Role: roleSystem, Content: instructions},
		{Role: roleUser, Content: question},
	}}, nil
}

// Model requests the next message of the model. The reply is a step, so an attempt after a lost worker does not repeat
// the request, and its usage is reported once for the turn, whichever attempt reports it.
func (a *agent) Model(ctx context.Context, c Conversation) (Conversation, error) {
	reply, err := activity.Step(ctx, "complete", func(ctx context.Context) (Reply, error) {
		reply, err := a.client.complete(ctx, c.Messages, a.specs(), func(text string) error {
			return activity.Emit(ctx, activity.Frame{Kind: tokenFrame, Payload: text})
		})
		if err != nil {
			return Reply{}, err
		}
		for _, call := range reply.Message.ToolCalls {
			if err := activity.Emit(ctx, activity.Frame{Kind: callFrame, Payload: call}); err != nil {
				return Reply{}, err
			}
		}
		return reply, nil
	})
	if err != nil {
		return Conversation{}, err
	}
	if err := activity.ReportUsageOnce(ctx, "turn", map[string]int64{dimension: reply.Usage.Total}); err != nil {
		return Conversation{}, err
	}
	c.Messages = append(c.Messages, reply.Message)
	return c, nil
}

// specs describes the tools to the model, in the order of their names.
func (a *agent) specs() []toolSpec {
	var specs []toolSpec
	for _, name := range slices.Sorted(maps.Keys(a.tools)) {
		specs = append(specs, toolSpec{Type: "function", Function: a.tools[name].spec})
	}
	return specs
}

// Plan makes a node of each tool call of the last message, one after the other, and a waitpoint in front of each that
// changes something.
func (a *agent) Plan(_ context.Context, c Conversation) (flow.Plan[Conversation], error) {
	calls := c.last().ToolCalls
	if len(calls) == 0 {
		return flow.Done(c)
	}
	f := flow.New[Conversation, Conversation]("agent-tools")
	results := make([]flow.Ref[Message], len(calls))
	for i, call := range calls {
		var after []flow.Upstream
		if i > 0 {
			after = append(after, results[i-1])
		}
		results[i] = a.planCall(f, i+1, call, flow.After(after...))
	}
	flow.Return(f, flow.Node(f, "record", a.record, flow.Struct[RecordInput](
		flow.Field("conversation", f.Input()),
		flow.Field("results", flow.List(results...)))))
	def, err := f.Build()
	if err != nil {
		return flow.Plan[Conversation]{}, activity.NonRetryable(err)
	}
	return flow.PlanOf(def, c)
}

// planCall adds the node of a call, and its waitpoint if it needs an approval.
func (a *agent) planCall(
	f *flow.Builder[Conversation, Conversation], number int, call ToolCall, after flow.OrderOption,
) flow.Ref[Message] {
	t, known := a.tools[call.Function.Name]
	name := fmt.Sprintf("call-%d-unknown", number)
	if known {
		name = fmt.Sprintf("call-%d-%s", number, t.spec.Name)
	}
	if !t.changes {
		return flow.Node(f, name, a.call, flow.Struct[ToolInput](flow.Field("call", flow.Const(call))), after)
	}
	question := fmt.Sprintf("The model wants to call %s with %s. May it?", call.Function.Name, call.Function.Arguments)
	decision := flow.Waitpoint[activity.Decision](f, fmt.Sprintf("approve-%d", number), after,
		activity.Signals(approve, reject), activity.Title("Approve "+t.spec.Name), activity.Question(clip(question, 4000)),
		activity.AnswerSchema(decisionSchema), activity.Timeout(approvalTime, activity.Escalate))
	return flow.Node(f, name, a.call, flow.Struct[ToolInput](
		flow.Field("call", flow.Const(call)),
		flow.Field("decision", decision)))
}

// Call executes a tool call. A mistake of the model is a result, which the model reads.
func (a *agent) Call(_ context.Context, in ToolInput) (Message, error) {
	result := func(text string) (Message, error) {
		return Message{Role: roleTool, Content: clip(text, maxResult), ToolCallID: in.Call.ID}, nil
	}
	t, known := a.tools[in.Call.Function.Name]
	switch {
	case !known:
		return result(fmt.Sprintf("there is no tool %q", in.Call.Function.Name))
	case t.changes && in.Decision == nil:
		return Message{}, activity.NonRetryable(fmt.Errorf("tool %s: nobody was asked", t.spec.Name))
	case t.changes && in.Decision.Choice != approve:
		return result("refused by " + in.Decision.By)
	}
	text, err := t.run(in.Call.Function.Arguments)
	if errors.Is(err, errArguments) {
		return result(err.Error())
	}
	if err != nil {
		return Message{}, fmt.Errorf("tool %s: %w", t.spec.Name, err)
	}
	return result(text)
}

// clip shortens a text to a number of bytes.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " …"
}

// Record adds the results of tools to the conversation.
func Record(_ context.Context, in RecordInput) (Conversation, error) {
	in.Conversation.Messages = append(in.Conversation.Messages, in.Results...)
	return in.Conversation, nil
}

// Done reports whether the model has answered: its last message requests no tool.
func Done(_ context.Context, c Conversation) (bool, error) {
	return c.last().Role == roleAssistant && len(c.last().ToolCalls) == 0, nil
}

// Conclude makes an answer of the conversation.
func Conclude(_ context.Context, c Conversation) (Answer, error) {
	answer := Answer{Text: c.last().Content, Calls: []Called{}}
	asked := map[string]FunctionCall{}
	for _, m := range c.Messages {
		for _, call := range m.ToolCalls {
			asked[call.ID] = call.Function
		}
		if m.Role == roleTool {
			call := asked[m.ToolCallID]
			answer.Calls = append(answer.Calls, Called{Tool: call.Name, Arguments: call.Arguments, Result: m.Content})
		}
	}
	return answer, nil
}

// last returns the last message, an empty one if there is none.
func (c Conversation) last() Message {
	if len(c.Messages) == 0 {
		return Message{}
	}
	return c.Messages[len(c.Messages)-1]
}
