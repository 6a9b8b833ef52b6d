package main

import (
	"context"
	"crypto/subtle"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/approvals"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
)

//go:embed links.html
var linksText string

var linksTemplate = template.Must(template.New("links").Parse(linksText))

// answersPath is the path at which the handler of the links is mounted.
const answersPath = "/answer"

// serveCommand serves a page with the links of all waiting deployments. It replaces the mails or messages by which
// people would get them: anyone who sees the page can answer, so it is for this machine only.
func serveCommand(ctx context.Context, p program, o options) error {
	return withEngine(ctx, p, o, func(engine *runtime.Engine, client *runtime.Client) error {
		links := linksPage{client}
		answers, err := approvals.New(client, approvals.Config{
			Title: "Deployments", Question: links.question,
			Logger: slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
		if err != nil {
			return err
		}
		listener, err := net.Listen("tcp", o.address)
		if err != nil {
			return fmt.Errorf("-address: %w", err)
		}
		mux := http.NewServeMux()
		mux.Handle("GET /{$}", links)
		mux.Handle(answersPath+"/", http.StripPrefix(answersPath, answers))
		// Another site could have its name lead to this machine, and read the links.
		pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := loopback(r.Host); err != nil {
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
			mux.ServeHTTP(w, r)
		})
		fmt.Fprintf(p.stdout, "The links are at http://%s/ (Ctrl-C ends)\n", listener.Addr())
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return serveHTTP(ctx, listener, pages) })
		group.Go(func() error { return share(ctx, engine, o) })
		return group.Wait()
	})
}

// linksPage lists the deployments that wait for people, with the links.
type linksPage struct{ client *runtime.Client }

// link is one deployment that waits.
type link struct {
	Version   string
	Received  int
	Needed    int
	Open      time.Duration
	Escalated bool
	Path      string
	token     activity.Token
}

func (l linksPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), patienceForEngine)
	defer cancel()
	links, err := l.open(ctx)
	if err != nil {
		http.Error(w, "The deployments could not be read, maybe the process with the engine has ended: "+err.Error(),
			http.StatusServiceUnavailable)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Frame-Options", "DENY")
	_ = linksTemplate.Execute(w, links) // a reader who has gone needs no page
}

// open lists the open waits.
func (l linksPage) open(ctx context.Context) ([]link, error) {
	page, err := l.client.ListRuns(ctx, runtime.RunQuery{Flow: flowName}, "", listed)
	if err != nil {
		return nil, err
	}
	var links []link
	for _, run := range page.Items {
		if run.State != fabrictype.RunRunning {
			continue
		}
		wait, err := openWait(ctx, l.client, run.Run)
		if errors.Is(err, errNotWaiting) {
			continue
		}
		if err != nil {
			return nil, err
		}
		links = append(links, link{
			Version: run.Run, Received: wait.Received, Needed: wait.Needed,
			Open:      time.Since(wait.OpenedAt).Round(time.Second),
			Escalated: wait.Escalated, Path: answersPath + approvals.Path(wait.Token), token: wait.Token,
		})
	}
	return links, nil
}

// question describes the deployment of a link, if its token belongs to an open wait.
func (l linksPage) question(r *http.Request, token activity.Token) string {
	links, err := l.open(r.Context())
	if err != nil {
		return ""
	}
	for _, link := range links {
		if subtle.ConstantTimeCompare([]byte(link.token.Reveal()), []byte(token.Reveal())) == 1 {
			return fmt.Sprintf("May version %s of the site go live? %d of %d have answered.", link.Version,
				link.Received, link.Needed)
		}
	}
	return ""
}
