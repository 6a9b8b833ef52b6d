package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

// inProcess returns a client of the HTTP API of the session's engine that needs no network: it has all rights, as
// whoever can open the engine does.
func (s *session) inProcess() (client *httpclient.Client, stop func(), err error) {
	srv, err := server.New(server.Config{Engine: s.engine, Namespace: s.where.namespace})
	if err != nil {
		return nil, nil, err
	}
	client, err = srv.Client()
	if err != nil {
		srv.Close()
		return nil, nil, err
	}
	return client, srv.Close, nil
}

// prepareToken manages tokens.
func prepareToken(flags *flag.FlagSet) action {
	role := flags.String("role", "viewer", "viewer, operator or admin")
	rights := flags.String("rights", "", "rights beside those of the role, with commas: approve, payloads:read")
	flows := flags.String("flows", "", "a `pattern` of the flows that it is for, such as billing-*")
	expires := flags.Duration("expires", 0, "how long it is valid; for ever by default")
	return action{checkToken, func(ctx context.Context, s *session, out *output, args []string) error {
		client, stop, err := s.inProcess()
		if err != nil {
			return err
		}
		defer stop()
		switch args[0] {
		case "create":
			in := api.CreateTokenInput{}
			in.Body.Name, in.Body.Role, in.Body.Flows = args[1], api.Role(*role), *flows
			in.Body.Expires = api.Duration{Duration: *expires}
			for right := range strings.SplitSeq(*rights, ",") {
				if right != "" {
					in.Body.Rights = append(in.Body.Rights, api.Right(right))
				}
			}
			created, err := httpclient.Call(ctx, client, api.CreateToken, in)
			if err != nil {
				return asUsage(err)
			}
			out.row(created, created.Text)
			return nil
		case "delete":
			_, err := httpclient.Call(ctx, client, api.DeleteToken, api.TokenNameInput{Token: args[1]})
			return err
		}
		tokens, err := httpclient.Call(ctx, client, api.ListTokens, api.Empty{})
		if err != nil {
			return err
		}
		out.head("name", "role", "rights", "flows", "created", "by", "expires")
		for _, t := range tokens.Items {
			out.row(t, t.Name, string(t.Role), fmt.Sprint(t.Rights), t.Flows, at(t.CreatedAt), t.CreatedBy,
				at(t.ExpiresAt))
		}
		return nil
	}}
}

func checkToken(args []string) error {
	if len(args) == 1 && args[0] == "list" || len(args) == 2 && (args[0] == "create" || args[0] == "delete") {
		return nil
	}
	return fmt.Errorf("%w: want create NAME, list or delete NAME, got: %q", errUsage, strings.Join(args, " "))
}

// asUsage marks a refusal of what was given on the command line.
func asUsage(err error) error {
	if httpclient.Code(err) == "invalid" {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return err
}

// startedView is a started run as -json shows it.
type startedView struct {
	Flow   string            `json:"flow"`
	Run    string            `json:"run"`
	State  runtime.RunState  `json:"state,omitempty"`
	Result json.RawMessage   `json:"result,omitempty"`
	Tags   map[string]string `json:"tags,omitempty"`
}

// prepareStart starts a run by the name of its flow.
func prepareStart(flags *flag.FlagSet) action {
	tags := tagFlag{}
	input := flags.String("input", "null", "the input in JSON, or @FILE")
	id := flags.String("id", "", "the id of the run; a random one by default")
	delay := flags.Duration("delay", 0, "begin after this time")
	wait := flags.Bool("wait", false, "wait for the end, and print the result")
	flags.Var(tags, "tag", "a tag of the run, key=value; may be given several times")
	return action{need([]string{"FLOW"}), func(ctx context.Context, s *session, out *output, args []string) error {
		text := []byte(*input)
		if name, isFile := strings.CutPrefix(*input, "@"); isFile {
			var err error
			if text, err = os.ReadFile(name); err != nil {
				return err
			}
		}
		if !json.Valid(text) {
			return fmt.Errorf("%w: -input: must be JSON or @FILE", errUsage)
		}
		var opts []runtime.StartOption
		if *id != "" {
			opts = append(opts, runtime.WithID(*id))
		}
		for key, value := range tags {
			opts = append(opts, runtime.WithTag(key, value))
		}
		if *delay != 0 {
			opts = append(opts, runtime.StartAfter(*delay))
		}
		run, err := s.client.StartNamed(ctx, args[0], text, opts...)
		if err != nil {
			return err
		}
		if !*wait {
			out.row(startedView{Flow: run.FlowName(), Run: run.ID(), Tags: tags}, run.ID())
			return nil
		}
		return printResult(ctx, s, out, run.RunRef)
	}}
}

// errRunNotSuccessful is returned when the run that a command has waited for did not succeed.
var errRunNotSuccessful = errors.New("the run did not succeed")

// resultWait is how long one request waits for the end of a run.
const resultWait = 30 * time.Second

func printResult(ctx context.Context, s *session, out *output, run *runtime.RunRef) error {
	client, stop, err := s.inProcess()
	if err != nil {
		return err
	}
	defer stop()
	in := api.GetResultInput{
		RunName: api.RunName{Flow: run.FlowName(), Run: run.ID()},
		Wait:    api.Duration{Duration: resultWait},
	}
	for {
		result, err := httpclient.Call(ctx, client, api.GetResult, in)
		if err != nil {
			return err
		}
		switch state := runtime.RunState(result.State); state {
		case runtime.RunRunning:
		case runtime.RunSucceeded:
			view := startedView{Flow: run.FlowName(), Run: run.ID(), State: state}
			if result.Value != nil {
				view.Result = result.Value.JSON
			}
			out.row(view, string(view.Result))
			return nil
		default:
			return fmt.Errorf("%w: %s of %s: %s: %s", errRunNotSuccessful, run.ID(), run.FlowName(), result.State,
				result.Reason)
		}
	}
}
