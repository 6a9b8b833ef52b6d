package approvals

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/decision"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Handler answers the requests for links. It is safe for concurrent use.
type Handler struct {
	config    Config
	client    signaler
	addresses *limiter
	links     *limiter
	// formWithin is formWithin, but in tests.
	formWithin time.Duration
	record     record
}

// New makes a handler that signals through the client, and records each answer in the audit log of its namespace before
// it is delivered ("answer_wait"). Its error joins everything that is wrong with the config, and matches ErrInvalid.
func New(client *runtime.Client, config Config) (*Handler, error) {
	if client == nil {
		_, err := config.complete()
		return nil, errors.Join(err, fmt.Errorf("%w: client is nil", ErrInvalid))
	}
	return newHandler(client, config)
}

func newHandler(client signaler, config Config) (*Handler, error) {
	config, err := config.complete()
	if err != nil {
		return nil, err
	}
	h := &Handler{
		config: config, client: client, formWithin: formWithin, record: unrecorded,
		addresses: newLimiter(config.AddressEvery, config.AddressBurst),
		links:     newLimiter(config.LinkEvery, config.LinkBurst),
	}
	if c, ok := client.(*runtime.Client); ok {
		h.client = c.As("") // the handler records in whose name it signals
		h.record = recordIn(c)
	}
	return h, nil
}

// ServeHTTP shows the page of a link for GET, and takes the answer for POST. The path begins with the token; use
// http.StripPrefix.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.limitBody(w, r)
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost {
		w.Header().Set("Allow", "GET, HEAD, POST")
		h.write(w, r, http.StatusMethodNotAllowed,
			page{Heading: "This is not possible", Text: []string{"Open the link in a browser."}})
		return
	}
	if wait, ok := h.addresses.take(h.config.RemoteAddress(r), time.Now()); !ok {
		h.tooMany(w, r, wait)
		return
	}
	token, err := readPath(r.URL.Path)
	switch {
	case err != nil:
		h.invalid(w, r)
	case r.Method == http.MethodPost:
		h.take(w, r, token)
	default:
		h.ask(w, r, http.StatusOK, token, activity.Decision{}, "")
	}
}

// ask shows the form, filled with the visitor's previous input but for the answer, which a button gives.
func (h *Handler) ask(
	w http.ResponseWriter, r *http.Request, status int, token activity.Token, entered activity.Decision, fault string,
) {
	who, ok := h.visitor(r)
	if !ok {
		h.forbidden(w, r)
		return
	}
	f := &form{
		Seal: h.seal(h.nonce(w, r), token.Reveal(), who), AskWho: h.config.Identity == nil, Who: entered.By,
		Comment: entered.Comment,
		MaxWho:  maxName, MaxComment: maxComment,
	}
	if !f.AskWho {
		f.Who = who
	}
	for _, choice := range h.config.Choices {
		f.Choices = append(f.Choices, choiceButton{choice, decision.Meaning(choice.Signal)})
	}
	p := page{Heading: "Your answer is asked for", Fault: fault, Form: f}
	if h.config.Question != nil {
		if question := h.config.Question(r, token); question != "" {
			p.Text = []string{question}
		}
	}
	h.write(w, r, status, p)
}

// visitor returns the visitor's name, "" if the page has a field for it; ok is false for a visitor who is not
// authorised.
func (h *Handler) visitor(r *http.Request) (who string, ok bool) {
	if h.config.Identity == nil {
		return "", true
	}
	who, ok = h.config.Identity(r)
	return who, ok && who != ""
}

// maxForm bounds the bytes that are read of a form: a comment of the longest kind fits in.
const maxForm = 64 << 10

// formWithin is how long a form may take to arrive.
const formWithin = 10 * time.Second

// limitBody bounds the time to read the body of a request if the server does not: an unwanted body is read, too, before
// the next request of the connection.
func (h *Handler) limitBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 {
		return
	}
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.ReadTimeout > 0 {
		return
	}
	// a writer that has none is bounded elsewhere
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.formWithin))
}

// take delivers the answer of a form.
func (h *Handler) take(w http.ResponseWriter, r *http.Request, token activity.Token) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		status := http.StatusBadRequest
		if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
			status = http.StatusRequestEntityTooLarge
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			status = http.StatusRequestTimeout
			w.Header().Set("Connection", "close")
		}
		h.ask(w, r, status, token, activity.Decision{}, "The form could not be read. Please fill it in again.")
		return
	}
	who, ok := h.visitor(r)
	if !ok {
		h.forbidden(w, r)
		return
	}
	d, fault := h.readDecision(r, who)
	if !h.ownForm(r, token.Reveal(), who) {
		h.ask(w, r, http.StatusForbidden, token, d,
			"Nothing was sent yet: please confirm your answer once more. The site needs a cookie for it.")
		return
	}
	if fault != "" {
		h.ask(w, r, http.StatusUnprocessableEntity, token, d, fault)
		return
	}
	if wait, ok := h.links.take(token.Reveal(), time.Now()); !ok {
		h.tooMany(w, r, wait)
		return
	}
	h.deliver(w, r, token, d)
}

// signaler is *runtime.Client.
type signaler interface {
	Signal(ctx context.Context, token activity.Token, s runtime.Signal) (fabrictype.SignalResult, error)
}

// patience is how long a visitor waits for the engine.
const patience = 15 * time.Second

// deliver signals the waitpoint and returns the outcome. An answer counts even if the visitor does not wait for the
// page.
func (h *Handler) deliver(w http.ResponseWriter, r *http.Request, token activity.Token, d activity.Decision) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), patience)
	defer cancel()
	source := h.source(d)
	delivery, err := h.record(ctx, token, h.auditEntry(r, d), func() (fabrictype.SignalResult, error) {
		return h.client.Signal(ctx, token, runtime.Signal{
			Name: d.Choice, Payload: d, Source: source, IdempotencyKey: idempotencyKey(d.Choice, source),
		})
	})
	switch {
	case errors.Is(err, runtime.ErrInvalidToken):
		h.invalid(w, r)
		return
	case errors.Is(err, runtime.ErrInvalid):
		h.ask(w, r, http.StatusUnprocessableEntity, token, d, "Your answer is not what is asked for: "+err.Error())
		return
	case errors.Is(err, runtime.ErrSignalDoesNotCount):
		h.write(w, r, http.StatusConflict, page{Heading: "Your answer does not count", Text: []string{
			fmt.Sprintf("Your answer: %s.", h.label(d.Choice)),
			"You have answered before and other people are needed, or the answer is not one of those that are asked for.",
		}})
		return
	case err != nil:
		h.config.Logger.LogAttrs(r.Context(), slog.LevelError,
			"flowfabric: the approvals handler could not deliver an answer",
			slog.String("event", "approval.not_delivered"),
			slog.String("choice", d.Choice), slog.String("by", d.By), slog.Any("error", err))
		if errors.Is(err, runtime.ErrTooLarge) {
			h.write(w, r, http.StatusConflict, page{Heading: "No more answers are taken", Text: []string{
				fmt.Sprintf("There are too many already, or they are too long: at most %d bytes together are allowed. "+
					"Yours was not recorded.", activityspec.MaxSignalSum),
			}})
			return
		}
		h.write(w, r, http.StatusServiceUnavailable, page{Heading: "Your answer could not be delivered", Text: []string{
			"Please try again in a moment: reload this page and let your browser send the form again. Sending it twice is harmless.",
		}})
		return
	}
	h.config.Logger.LogAttrs(r.Context(), slog.LevelInfo,
		"flowfabric: the approvals handler delivered an answer", slog.String("event", "approval.answered"),
		slog.String("choice", d.Choice), slog.String("by", d.By), slog.String("outcome", string(delivery.Outcome)))
	status, answer := h.answer(delivery, d)
	h.write(w, r, status, answer)
}

// answer returns the page for the result of delivering a decision.
func (h *Handler) answer(delivery fabrictype.SignalResult, d activity.Decision) (int, page) {
	given := fmt.Sprintf("Your answer: %s.", h.label(d.Choice))
	switch delivery.Outcome {
	case fabrictype.SignalAccepted:
		return http.StatusOK, page{
			Heading: "Thank you", Text: []string{given, "It is recorded. Answers of others may still be needed."},
		}
	case fabrictype.SignalResumed:
		return http.StatusOK, page{
			Heading: "Thank you", Text: []string{given, "It was the one that was waited for: it is decided now."},
		}
	case fabrictype.SignalDuplicate:
		return http.StatusOK, page{
			Heading: "You have answered already",
			Text:    []string{given, "It was recorded the first time. Nothing has changed."},
		}
	case fabrictype.SignalExpired:
		return http.StatusGone, page{
			Heading: "It is too late", Text: []string{"The time for an answer has passed. Yours was not recorded."},
		}
	}
	return http.StatusConflict, page{
		Heading: "It is decided already", Text: []string{"No answer is waited for any more. Yours was not recorded."},
	}
}

// invalid is the reply to every invalid token, whatever the reason.
func (h *Handler) invalid(w http.ResponseWriter, r *http.Request) {
	h.write(w, r, http.StatusNotFound, page{Heading: "This link is not valid", Text: []string{
		"Either it is not complete, or its question was settled so long ago that nothing is kept of it. " +
			"Please check the link, or ask for a new one.",
	}})
}

func (h *Handler) forbidden(w http.ResponseWriter, r *http.Request) {
	h.write(w, r, http.StatusForbidden, page{Heading: "You may not answer", Text: []string{
		"Please sign in as somebody who may, and open the link again.",
	}})
}

func (h *Handler) tooMany(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	seconds := int(math.Ceil(wait.Seconds()))
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	h.write(w, r, http.StatusTooManyRequests, page{Heading: "Too many requests", Text: []string{
		fmt.Sprintf("Please try again in %d s.", seconds),
	}})
}
