package storm

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A mailbox is a run that takes one message in each of its generations, until it gets the last one. Messages come while
// it waits, and while it does not.
const (
	mailFlow    = "mail"
	mailNode    = "box"
	mailWait    = "message"
	lastMessage = "last"
)

// collect is the function of mailboxes.
func collect(ctx context.Context, got []string) ([]string, error) {
	message, err := activity.Await[string](ctx, mailWait, activity.Signals("message"))
	switch {
	case err != nil:
		return nil, err
	case message == lastMessage:
		return got, nil
	}
	return nil, activity.ContinueAsNew(append(got, message))
}

func (a activities) startMailbox(ctx context.Context, client *runtime.Client, id string) (*runtime.Run[[]string], error) {
	f := flow.New[[]string, []string](mailFlow)
	flow.Return(f, flow.Node(f, mailNode, a.mail, f.Input(), activity.Retry(activity.RetryPolicy{Attempts: retries, Factor: 1})))
	def, err := f.Build()
	if err != nil {
		panic(err)
	}
	return runtime.Start(ctx, client, def, nil, runtime.WithID(id))
}

// mail sends messages to the mailbox of the customer, each one again and again until it counts.
func (c *customer) mail(ctx context.Context) {
	box := "mail-" + c.name
	run, err := c.startMailbox(ctx, c.client, box)
	if err != nil {
		return
	}
	for range 3 {
		message := uuid.NewString()
		c.diary.note(entry{What: mailing, Run: box, Nonce: message})
		if post(ctx, run, message) != nil {
			return
		}
		c.diary.note(entry{What: mailed, Run: box, Nonce: message})
	}
}

// post sends a message until it counts or the context ends.
func post(ctx context.Context, run *runtime.Run[[]string], message string) error {
	s := runtime.Signal{Name: "message", Payload: message, IdempotencyKey: message}
	for ctx.Err() == nil {
		sent, err := run.SignalWait(ctx, runtime.WaitName{Node: mailNode, Step: mailWait}, s)
		if err == nil && sent.Outcome != fabrictype.SignalClosed {
			return nil
		}
	}
	return ctx.Err()
}

// endMail sends the last message to all mailboxes, and returns their messages.
func (s *storm) endMail(ctx context.Context, t *testing.T, own activities, entries []entry) map[string][]string {
	t.Helper()
	letters := make(map[string][]string)
	for _, e := range entries {
		if _, done := letters[e.Run]; done || e.What != mailing {
			continue
		}
		run, err := own.startMailbox(ctx, s.bench.Client, e.Run)
		require.NoError(t, err)
		assert.True(t, run.Existed(), "mailbox %s was acknowledged", e.Run)
		require.NoError(t, post(ctx, run, lastMessage))
		letters[e.Run], err = run.Result(ctx)
		if err != nil {
			d, _ := run.Describe(ctx)
			t.Errorf("mailbox %s: %v\n%s", e.Run, err, stateOf(d))
		}
	}
	return letters
}

// letters checks that each message that counts is in its mailbox, and none twice.
func (j *checker) letters(boxes map[string][]string) {
	j.t.Helper()
	sent := make(map[string]int)
	for box, messages := range boxes {
		for _, message := range messages {
			sent[box+"/"+message]++
		}
	}
	for message, n := range sent {
		if n > 1 {
			j.t.Errorf("message %s came %d times", message, n)
		}
	}
	for _, e := range j.entries {
		switch {
		case e.What == mailed && sent[e.Run+"/"+e.Nonce] == 0:
			j.t.Errorf("message %s/%s counts, and never came", e.Run, e.Nonce)
		case e.What == mailed:
			j.tallies["messages"]++
		}
	}
}
