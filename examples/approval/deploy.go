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
)

// The names of the signals that people send.
const (
	approve = "approve"
	reject  = "reject"
)

// Count returns the answers of the people, or fails when one of them was a no.
func Count(
	_ context.Context, answers []activity.Signal[activity.Decision],
) ([]activity.Signal[activity.Decision], error) {
	for _, answer := range answers {
		if answer.Name != approve {
			return nil, activity.NonRetryable(errors.New("rejected by " + answer.Source))
		}
	}
	return answers, nil
}

// DeployInput is a release that people have agreed to.
type DeployInput struct {
	Release   Release                              `json:"release"`
	Approvals []activity.Signal[activity.Decision] `json:"approvals"`
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
	var by []string
	for _, a := range in.Approvals {
		by = append(by, a.Payload.By)
	}
	slices.Sort(by)
	return Deployed{Site: in.Release.Site, Version: in.Release.Version, ApprovedBy: by}, nil
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
