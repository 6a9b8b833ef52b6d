package service

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path"
	"time"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/serverstore"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/runtime/auditlog"
	"github.com/flowfabric/flowfabric-go/runtime/bulk"
	"github.com/flowfabric/flowfabric-go/runtime/fleet"
	"github.com/flowfabric/flowfabric-go/runtime/inspection"
	"github.com/flowfabric/flowfabric-go/runtime/runcount"
	"github.com/flowfabric/flowfabric-go/runtime/runevent"
	"github.com/flowfabric/flowfabric-go/runtime/runfeed"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// ListWorkers implements api.ListWorkers.
func (s *Service) ListWorkers(ctx context.Context, _ *api.Empty) (*api.Page[api.Worker], error) {
	workers, err := s.client.Workers(ctx)
	if err != nil {
		return nil, err
	}
	return pageOf(workers, func(w fleet.Worker) api.Worker {
		return api.Worker{
			Instance: string(w.Instance), Name: w.Name, State: w.State, Host: w.Host, PID: w.PID, Build: w.Build,
			Lanes: w.Lanes, Activities: w.Activities, Capabilities: w.Capabilities, Slots: w.Slots, Used: w.Used,
			Since: w.Since, ReportedAt: w.ReportedAt, DrainRequestedAt: w.DrainRequestedAt,
			DrainRequestedBy: w.DrainRequestedBy,
		}
	}), nil
}

// DrainWorker implements api.DrainWorker.
func (s *Service) DrainWorker(ctx context.Context, in *api.WorkerInput) (*api.Empty, error) {
	return done(s.as(ctx).DrainWorker(ctx, enginecore.WorkerInstanceID(in.Worker)))
}

func bulkJobOf(j *bulk.Job) api.BulkJob {
	return api.BulkJob{
		ID: j.ID, Action: j.Action, Query: j.Query, Rate: j.Rate, Most: j.Most, Actor: j.Actor, State: j.State,
		CreatedAt: j.CreatedAt, ClosedAt: j.ClosedAt, StoppedBy: j.StoppedBy, Progress: j.Progress,
	}
}

// ListBulkJobs implements api.ListBulkJobs.
func (s *Service) ListBulkJobs(ctx context.Context, _ *api.Empty) (*api.Page[api.BulkJob], error) {
	return collect(s.client.BulkJobs(ctx), bulkJobOf)
}

// GetBulkJob implements api.GetBulkJob.
func (s *Service) GetBulkJob(ctx context.Context, in *api.BulkJobInput) (*api.BulkJob, error) {
	j, err := s.client.DescribeBulkJob(ctx, in.Job)
	if err != nil {
		return nil, err
	}
	out := bulkJobOf(j)
	return &out, nil
}

func bulkQuery(in *api.BulkInput) (runtime.RunQuery, error) {
	values, err := url.ParseQuery(in.Body.Query)
	if err != nil {
		return runtime.RunQuery{}, faultAt("/query", "must be parameters of a URL: %v", err)
	}
	if len(values) == 0 && !in.Body.EveryRun {
		return runtime.RunQuery{}, faultAt("/query", "selects every run; set every_run to confirm that")
	}
	return runtime.ParseRunQuery(values)
}

// PreviewBulkJob implements api.PreviewBulkJob.
func (s *Service) PreviewBulkJob(ctx context.Context, in *api.BulkInput) (*api.BulkPreview, error) {
	q, err := bulkQuery(in)
	if err != nil {
		return nil, err
	}
	p, err := s.as(ctx).PreviewBulkJob(ctx, q, in.Body.Action, bulkOptions(in))
	if err != nil {
		return nil, err
	}
	sample := pageOf(p.Sample, func(r bulk.Run) api.BulkRun {
		return api.BulkRun{Flow: r.Flow, Run: r.Run, State: r.State, CreatedAt: r.CreatedAt}
	})
	return &api.BulkPreview{Runs: p.Runs, States: p.States, Sample: sample.Items, More: p.More}, nil
}

func bulkOptions(in *api.BulkInput) bulk.Options {
	return bulk.Options{ID: in.Body.ID, Rate: in.Body.Rate, Most: in.Body.Most}
}

// StartBulkJob implements api.StartBulkJob.
func (s *Service) StartBulkJob(ctx context.Context, in *api.BulkInput) (*api.BulkJob, error) {
	q, err := bulkQuery(in)
	if err != nil {
		return nil, err
	}
	options := bulkOptions(in)
	options.Actor = login.From(ctx).Name
	j, err := s.as(ctx).StartBulkJob(ctx, q, in.Body.Action, options)
	if err != nil {
		return nil, err
	}
	out := bulkJobOf(j)
	return &out, nil
}

// StopBulkJob implements api.StopBulkJob.
func (s *Service) StopBulkJob(ctx context.Context, in *api.BulkJobInput) (*api.Empty, error) {
	return done(s.as(ctx).StopBulkJob(ctx, in.Job))
}

// CountRuns implements api.CountRuns.
func (s *Service) CountRuns(ctx context.Context, in *api.CountRunsInput) (*api.Page[api.RunCount], error) {
	q, err := runtime.ParseRunQuery(in.Query, "by")
	if err != nil {
		return nil, err
	}
	who := login.From(ctx)
	by := make([]runcount.By, len(in.By))
	byFlow := false
	for i, text := range in.By {
		by[i] = runcount.By(text)
		byFlow = byFlow || by[i] == runcount.Flow
	}
	if who.Restricted() && !byFlow {
		by = append(by, runcount.Flow)
	}
	counts, err := s.client.Counts(ctx, q, by...)
	if err != nil {
		return nil, err
	}
	return sumCounts(who, counts, byFlow), nil
}

// sumCounts leaves out the flows that the caller may not see, and adds up what is not to be told apart by flow.
func sumCounts(who login.Principal, counts []runcount.Count, byFlow bool) *api.Page[api.RunCount] {
	out := &api.Page[api.RunCount]{Items: []api.RunCount{}}
	places := map[api.RunCount]int{}
	for _, c := range counts {
		if c.Flow != "" && !who.Sees(c.Flow) {
			continue
		}
		group := api.RunCount{State: c.State, Hour: c.Hour}
		if byFlow {
			group.Flow = c.Flow
		}
		at, ok := places[group]
		if !ok {
			at = len(out.Items)
			places[group] = at
			out.Items = append(out.Items, group)
		}
		out.Items[at].Runs += c.Runs
	}
	return out
}

// FollowFeed implements api.FollowFeed.
func (s *Service) FollowFeed(ctx context.Context, in *api.FollowFeedInput) (Items[api.FeedEvent], error) {
	filter := runfeed.Filter{Flow: in.Flow, Children: in.Children}
	for _, kind := range in.Kinds {
		filter.Kinds = append(filter.Kinds, runevent.Kind(kind))
	}
	feed, err := s.client.Feed(ctx, filter, in.Cursor())
	if err != nil {
		return nil, err
	}
	who := login.From(ctx)
	return func(yield func(Item[api.FeedEvent], error) bool) {
		defer feed.Close()
		for e, err := range feed.Events(ctx) {
			if err != nil {
				yield(Item[api.FeedEvent]{}, err)
				return
			}
			if !who.Sees(e.Flow) {
				continue
			}
			event := api.FeedEvent{
				Cursor: feed.Cursor(), Kind: string(e.Kind), Flow: e.Flow, Run: e.Run, Child: e.Child, Node: e.Node,
				Detail: e.Detail, At: e.At,
			}
			if !yield(Item[api.FeedEvent]{event.Cursor, event}, nil) {
				return
			}
		}
	}, nil
}

// ListAudit implements api.ListAudit.
func (s *Service) ListAudit(ctx context.Context, in *api.ListAuditInput) (*api.Page[api.AuditEntry], error) {
	out := &api.Page[api.AuditEntry]{Items: []api.AuditEntry{}}
	query := auditlog.Query{
		Actor: in.Actor, Action: auditlog.Action(in.Action), Name: in.Name, From: in.From, Before: in.Before,
		After: in.Cursor,
	}
	for e, err := range s.client.Audit(ctx, query) {
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, api.AuditEntry{
			ID: e.ID, At: e.At, Actor: e.Actor, Action: string(e.Action), Name: e.Name, Detail: e.Detail,
			Failure: e.Failure,
		})
		if len(out.Items) == in.Limit {
			out.Next = e.Cursor
			break
		}
	}
	return out, nil
}

// Inspect implements api.Inspect.
func (s *Service) Inspect(ctx context.Context, _ *api.Empty) (*api.Inspection, error) {
	report, err := s.engine.Inspect(ctx)
	if err != nil {
		return nil, err
	}
	findings := report.Findings
	if findings == nil {
		findings = []inspection.Finding{}
	}
	return &api.Inspection{Worst: report.Worst().String(), Findings: findings}, nil
}

// ListKeeperTasks implements api.ListKeeperTasks.
func (s *Service) ListKeeperTasks(_ context.Context, _ *api.Empty) (*api.Page[api.KeeperTask], error) {
	return pageOf(s.admin.KeeperTasks(), func(t admin.KeeperTask) api.KeeperTask {
		return api.KeeperTask{Name: t.Name, Summary: t.Summary, Every: api.Duration{Duration: t.Every}}
	}), nil
}

// RunKeeperTask implements api.RunKeeperTask.
func (s *Service) RunKeeperTask(ctx context.Context, in *api.KeeperTaskInput) (*api.KeeperTaskReport, error) {
	r, err := s.admin.RunKeeperTask(ctx, in.Task, runtime.KeeperConfig{})
	if err != nil {
		return nil, err
	}
	return &api.KeeperTaskReport{
		Task: r.Task, Partitions: r.Partitions, Steps: r.Steps, Done: r.Done, Lag: api.Duration{Duration: r.Lag},
		Remaining: r.Remaining,
		Repaired:  r.Repaired, Took: api.Duration{Duration: r.Took},
	}, nil
}

// GetServer implements api.GetServer.
func (s *Service) GetServer(ctx context.Context, _ *api.Empty) (*api.ServerInfo, error) {
	who := login.From(ctx)
	out := s.info
	out.Principal = api.Principal{Name: who.Name, Login: string(who.Kind), Rights: who.Rights, Flows: who.Flows}
	return &out, nil
}

func tokenOf(t serverstore.Token) api.Token {
	out := api.Token{
		Name: t.Name, Role: api.Role(t.Role), Flows: t.Flows, CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy,
		ExpiresAt: t.ExpiresAt,
	}
	for _, right := range t.Rights {
		out.Rights = append(out.Rights, api.Right(right))
	}
	return out
}

// ListTokens implements api.ListTokens.
func (s *Service) ListTokens(ctx context.Context, _ *api.Empty) (*api.Page[api.Token], error) {
	tokens, err := s.store.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	return pageOf(tokens, tokenOf), nil
}

// TokenPrefix begins the text of every token, so that scanners for secrets find them.
const TokenPrefix = "ffk_"

// HashToken is what is stored of the text of a token. The text has 256 random bits, so that a plain hash does not give
// it away.
func HashToken(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// CreateToken implements api.CreateToken.
func (s *Service) CreateToken(ctx context.Context, in *api.CreateTokenInput) (*api.CreatedToken, error) {
	b := &in.Body
	if _, err := path.Match(b.Flows, ""); err != nil {
		return nil, faultAt("/flows", "must be a pattern such as billing-*, got: %q", b.Flows)
	}
	if b.Expires.Duration < 0 {
		return nil, faultAt("/expires", "must not be negative, got: %s", b.Expires.Duration)
	}
	var secret [32]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return nil, err
	}
	text := TokenPrefix + hex.EncodeToString(secret[:])
	token := serverstore.Token{
		Name: b.Name, Hash: HashToken(text), Role: string(b.Role), Flows: b.Flows,
		CreatedAt: s.now().UTC().Truncate(time.Millisecond),
		CreatedBy: login.From(ctx).Name,
	}
	for _, right := range b.Rights {
		token.Rights = append(token.Rights, string(right))
	}
	if b.Expires.Duration > 0 {
		token.ExpiresAt = token.CreatedAt.Add(b.Expires.Duration)
	}
	if err := s.store.AddToken(ctx, token); err != nil {
		return nil, err
	}
	return &api.CreatedToken{Token: tokenOf(token), Text: text}, nil
}

// DeleteToken implements api.DeleteToken.
func (s *Service) DeleteToken(ctx context.Context, in *api.TokenNameInput) (*api.Empty, error) {
	return done(s.store.RemoveToken(ctx, in.Token))
}

// RotateSecrets implements api.RotateSecrets.
func (s *Service) RotateSecrets(ctx context.Context, in *api.RotateSecretsInput) (*api.RotatedSecrets, error) {
	r, err := s.engine.RotateSecrets(ctx, graceOf(in.Body.Grace), runtime.WithActor(login.From(ctx).Name))
	if err != nil {
		return nil, err
	}
	return &api.RotatedSecrets{Rotated: r.Rotated + r.Unchanged, Failed: len(r.Failed)}, nil
}
