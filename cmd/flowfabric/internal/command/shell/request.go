package shell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/httpcall"
)

// Request is one call of a command.
type Request struct {
	*App
	context.Context
	Cmd     *cobra.Command
	Session *connect.Session
	Out     *output.Writer
	Args    []string

	patience time.Duration // 0 is for ever
	typed    string        // the text that is being completed
}

// Call calls an operation.
func Call[In, Out any](r *Request, op httpapi.Call[In, Out], in In) (*Out, error) {
	if r.patience == 0 {
		return httpcall.Call(r, r.Session.Client.Internal(), op, in)
	}
	ctx, cancel := context.WithTimeout(r, r.patience)
	defer cancel()
	out, err := httpcall.Call(ctx, r.Session.Client.Internal(), op, in)
	if err != nil && ctx.Err() != nil && r.Err() == nil {
		return nil, fmt.Errorf("%s: %w: there was no reply for %s: the engine or its server hangs; --timeout 0 waits on",
			op.Name, context.DeadlineExceeded, r.patience)
	}
	return out, err
}

// Stream follows an operation.
func Stream[In, Event any](r *Request, op httpapi.Stream[In, Event], in In) iter.Seq2[Event, error] {
	return httpcall.Follow(r, r.Session.Client.Internal(), op, in)
}

// Pages reads a list up to a number of elements, 0 for all. It reports whether there are more.
func Pages[In, T any](
	r *Request, op httpapi.Call[In, fabrictype.Page[T]], limit int, input func(api.Paging) In,
) (items []T, more bool, err error) {
	const most = 500
	var paging api.Paging
	for {
		paging.Limit = most
		if limit > 0 { // one more shows whether the list was cut
			paging.Limit = min(most, limit-len(items)+1)
		}
		page, err := Call(r, op, input(paging))
		if err != nil {
			return nil, false, err
		}
		items = append(items, page.Items...)
		if limit > 0 && len(items) > limit {
			return items[:limit], true, nil
		}
		if paging.Cursor = page.Next; paging.Cursor == "" {
			return items, false, nil
		}
	}
}

// Note prints a line for people, separate from the output, in every format.
func (r *Request) Note(format string, args ...any) {
	fmt.Fprintln(r.Stderr, output.VisibleLines(fmt.Sprintf(format, args...)))
}

// SayMore notes that a list was cut, separate from the output, so that no program takes the line for an element.
func (r *Request) SayMore(more bool) {
	if more {
		r.Note("There are more: --limit 0 shows all.")
	}
}

// PrintDone prints that an operation has succeeded.
func (r *Request) PrintDone(what, name string, err error) error {
	if err != nil {
		return err
	}
	return r.Out.Value(map[string]string{"done": what}, name, what)
}

// Destroy performs an operation that cannot be undone, and that the text describes: "purge run x of flow y". With
// --dry-run it only checks that the object exists; without --yes it asks for confirmation, or, where it cannot ask,
// refuses.
func (r *Request) Destroy(what string, look, do func() error) error {
	if r.Flags.DryRun {
		if err := look(); err != nil {
			return err
		}
		return r.Out.Value(map[string]string{"would": what}, what, "would "+what)
	}
	if err := r.Confirm(what); err != nil {
		return err
	}
	return do()
}

func (r *Request) Confirm(what string) error {
	if r.Flags.Yes {
		return nil
	}
	if !r.Interactive() {
		ways := "give --yes to do so"
		if r.Cmd.Flags().Lookup("dry-run") != nil {
			ways += ", or --dry-run to look"
		}
		return Usage("%s: %s", what, ways)
	}
	fmt.Fprintf(r.Stderr, "Really %s? [y/N] ", output.Visible(what))
	answer, err := bufio.NewReader(r.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if text := strings.ToLower(strings.TrimSpace(answer)); !slices.Contains([]string{"y", "yes"}, text) {
		return errNotConfirmed
	}
	return nil
}

// RunName returns the run that the first two arguments name.
func (r *Request) RunName() httpapi.RunName { return httpapi.RunName{Flow: r.Args[0], Run: r.Args[1]} }
