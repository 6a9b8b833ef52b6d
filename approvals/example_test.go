package approvals_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/approvals"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

var publish = activity.New("publish", func(_ context.Context, d activity.Decision) (string, error) {
	return fmt.Sprintf("%s by %s", d.Choice, d.By), nil
})

// A run waits for an answer, and a visitor gives it in the browser, which an HTTP client replaces here.
func Example() {
	ctx, quiet := context.Background(), slog.New(slog.DiscardHandler)
	f := flow.New[string, string]("article")
	flow.Return(f, flow.Node(f, "publish", publish, flow.Waitpoint[activity.Decision](f, "review", activity.Signals("approve", "reject"))))
	def, err := f.Build()
	if err != nil {
		log.Fatal(err)
	}
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{Activities: def.Handlers(), Open: runtime.OpenConfig{
		Logger: quiet,
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer local.Close()

	links, err := approvals.New(local.Client(), approvals.Config{Title: "Articles", Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(http.StripPrefix("/review", links))
	defer server.Close()

	run, err := runtime.Start(ctx, local.Client(), def, "On waiting")
	if err != nil {
		log.Fatal(err)
	}
	waits, err := run.Waitpoints(ctx)
	if err != nil {
		log.Fatal(err)
	}
	answer(server.URL+"/review"+approvals.Path(waits[0].Token), "Ann")
	fmt.Println(run.Result(ctx))
	// Output: approve by Ann <nil>
}

// answer opens a link, fills the form in and sends it.
func answer(link, who string) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	browser := http.Client{Jar: jar}
	response, err := browser.Get(link)
	if err != nil {
		log.Fatal(err)
	}
	page, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		log.Fatal(err)
	}
	hidden := regexp.MustCompile(`name="form" value="([^"]+)"`).FindSubmatch(page)
	response, err = browser.PostForm(link, url.Values{"form": {string(hidden[1])}, "choice": {"approve"}, "who": {who}})
	if err != nil {
		log.Fatal(err)
	}
	_ = response.Body.Close()
}
