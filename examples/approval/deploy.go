package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/approvals"
)

// The names of the signals that people send.
const (
	approve = "approve"
	reject  = "reject"
)

// Approval is the outcome of the vote.
type Approval struct {
	By []string `json:"by"`
}

// Count turns the answers of the people into an approval, or fails when one of them was a no.
func Count(_ context.Context, answers []activity.Signal[approvals.Decision]) (Approval, error) {
	var a Approval
	for _, answer := range answers {
		d := answer.Payload
		if answer.Name != approve {
			err := fmt.Errorf("rejected by %s", d.By)
			if d.Comment != "" {
				err = fmt.Errorf("%w: %s", err, d.Comment)
			}
			return Approval{}, activity.NonRetryable(activity.Category(err, "rejected"))
		}
		a.By = append(a.By, d.By)
	}
	slices.Sort(a.By)
	return a, nil
}

// DeployInput is a release that people have agreed to.
type DeployInput struct {
	Release  Release  `json:"release"`
	Approval Approval `json:"approval"`
}

// Deployed is a release that was made live.
type Deployed struct {
	Site       string   `json:"site"`
	Version    string   `json:"version"`
	ApprovedBy []string `json:"approved_by"`
}

// Deploy makes the release live.
func Deploy(_ context.Context, in DeployInput) (Deployed, error) {
	if err := Site(in.Release.Site).switchTo(in.Release.Version); err != nil {
		return Deployed{}, err
	}
	return Deployed{Site: in.Release.Site, Version: in.Release.Version, ApprovedBy: in.Approval.By}, nil
}

// Verify checks that the web server serves the release.
func Verify(ctx context.Context, d Deployed) (Deployed, error) {
	url, err := Site(d.Site).noted(siteURL)
	if err != nil || url == "" {
		return d, errors.Join(err, fmt.Errorf("no server of %s has noted its address", d.Site))
	}
	served, err := fetch(ctx, url+"/version.txt")
	if err != nil {
		return d, err
	}
	if got := strings.TrimSpace(served); got != d.Version {
		return d, activity.NonRetryable(activity.Category(fmt.Errorf("%s says that it is %s, not %s", url, got,
			d.Version), "verify"))
	}
	return d, nil
}

// fetch gets a short text.
func fetch(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("GET %s: %s", url, response.Status)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	return string(text), err
}

// Rollback takes a release back, whether it was live already or not, and returns the version that is live then.
func Rollback(_ context.Context, c Change) (string, error) { return Site(c.Site).withdraw(c.Version) }
