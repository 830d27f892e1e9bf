package seqd

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// grace is the time beyond the server's deadline, so that its response about a missed deadline arrives.
	grace = 500 * time.Millisecond
	// maxServerTimeout is the longest deadline that a server accepts.
	maxServerTimeout = 30 * time.Second
	// defaultTimeout is the default deadline of a server.
	defaultTimeout = 3 * time.Second
	// maxResponse exceeds the size of a million values, more than any node returns at once.
	maxResponse = 64 << 20
)

// transport sends requests: it tries the endpoints in turn, applies deadlines, and distinguishes requests that were not
// sent from requests without a response.
type transport struct {
	endpoints  *endpoints
	http       *http.Client
	token      string
	hasTimeout bool
	whole      time.Duration
}

// call is one request without an endpoint.
type call struct {
	method, path string
	query        url.Values
	body         []byte
	key          string
	// changes is true if the outcome matters when the response is lost.
	changes bool
	// wait is the time for which the node may wait before it responds.
	wait time.Duration
}

func newTransport(list []endpoint, timeout time.Duration, token string, config *tls.Config) *transport {
	whole := defaultTimeout
	if timeout > 0 {
		whole = timeout
	}
	whole += grace
	dialer := &net.Dialer{Timeout: min(longestSilence, whole)}
	return &transport{
		endpoints:  newEndpoints(list),
		token:      token,
		hasTimeout: timeout > 0,
		whole:      whole,
		http: &http.Client{
			Transport: &http.Transport{
				DialContext:         dialer.DialContext,
				TLSClientConfig:     config,
				TLSHandshakeTimeout: longestSilence,
				MaxIdleConnsPerHost: 16,
				// Below the time after which a node closes an idle connection.
				IdleConnTimeout: 30 * time.Second,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// send sends a request within limit over all endpoints; 0 is the client's own limit. It reads the response into out.
func (t *transport) send(ctx context.Context, c call, limit time.Duration, out any) error {
	whole := t.whole
	if limit > 0 {
		whole = min(whole, limit)
	}
	until := time.Now().Add(whole + c.wait)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	var round round
	order := t.endpoints.inTurn()
	for tried, at := range order {
		if tried > 0 && time.Until(until) <= 0 {
			break
		}
		if done, err := t.attempt(ctx, &round, c, at, len(order)-tried, until, out); done {
			return err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return round.err(ctx)
}

// attempt tries one endpoint. It returns false if the next one should be tried.
func (t *transport) attempt(ctx context.Context, round *round, c call, at, left int, until time.Time,
	out any) (bool, error) {
	mayWait := c.wait > 0
	if (c.changes || mayWait && left > 1) && !t.endpoints.answeredLately(at) {
		// /livez is answered without the wait.
		limit := silence(min(time.Until(until), t.whole)/time.Duration(left+1), left)
		if !t.signOfLife(ctx, round, at, limit) {
			return false, nil
		}
	}
	rest := time.Until(until)
	// Each node may use up the whole wait.
	wait := min(c.wait, max(rest, 0))
	share := (rest-wait)/time.Duration(left) + wait
	limit := silence(share, left)
	switch {
	// Only one node is tried with a request that must not be repeated: it has all of the time.
	case c.changes:
		limit = rest
	// A deadline of the user is divided without the limit on silence, and so is the time of a request that waits.
	case mayWait || t.hasTimeout:
		limit = share
	}
	node := t.endpoints.list[at]
	status, body, wasSent, err := t.exchange(ctx, node, c, limit)
	if err != nil {
		t.endpoints.wasSilent(at)
		if wasSent && c.changes {
			return true, unknown(node, reason(err), err)
		}
		round.silent(node, reason(err), wasSent)
		return false, nil
	}
	if node.scheme == "http" && status == http.StatusBadRequest {
		if refused, tlsRequired, err := problemOf(status, body); err == nil && tlsRequired {
			t.endpoints.wasSilent(at)
			round.withoutTLS(node, refused)
			return false, nil
		}
	}
	t.endpoints.hasAnswered(at, status < 500)
	return round.answered(node, status, body, c.changes, out)
}

// signOfLife waits for any response of the node itself to /livez. Without one, nothing with an effect is sent.
func (t *transport) signOfLife(ctx context.Context, round *round, at int, limit time.Duration) bool {
	node := t.endpoints.list[at]
	status, _, wasSent, err := t.exchange(ctx, node, call{method: "GET", path: OpLive.path}, limit)
	if err == nil && status < 500 {
		t.endpoints.hasAnswered(at, true)
		return true
	}
	text := fmt.Sprintf("status %d for /livez", status)
	if err != nil {
		text = reason(err)
		if wasSent {
			text = "/livez " + text
		}
	}
	t.endpoints.wasSilent(at)
	round.silent(node, text, false)
	return false
}

// exchange sends one request and reads the whole response within the limit. It also returns whether any part of the
// request may have been sent.
func (t *transport) exchange(ctx context.Context, node endpoint, c call,
	limit time.Duration) (int, []byte, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, max(limit, time.Millisecond))
	defer cancel()
	// The server receives a deadline that leaves time for its response about a missed one.
	query := url.Values{}
	for key, values := range c.query {
		query[key] = values
	}
	told := min(max(limit-c.wait, 0), t.whole)
	if strings.HasPrefix(c.path, "/v1/") {
		deadline := min(max(told-grace, told/2), maxServerTimeout)
		query.Set("timeout_ms", strconv.FormatInt(max(deadline.Milliseconds(), 1), 10))
	}
	address := node.scheme + "://" + node.authority + c.path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	// Set before the first byte of the request is written.
	var wasSent atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { wasSent.Store(true) }}
	// The HTTP transport repeats a change by itself only if it has written nothing of it, or if it has a key by which
	// the cluster recognizes it.
	var body io.Reader
	if c.body != nil {
		body = bytes.NewReader(c.body)
	}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), c.method, address, body)
	if err != nil {
		return 0, nil, false, err
	}
	if c.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("Accept", "application/json, application/problem+json")
	if t.token != "" {
		request.Header.Set("Authorization", "Bearer "+t.token)
	}
	if c.key != "" {
		request.Header.Set("Idempotency-Key", c.key)
	}
	response, err := t.http.Do(request)
	if err != nil {
		return 0, nil, wasSent.Load() && !isRefusedCertificate(err), err
	}
	defer response.Body.Close()
	read, err := io.ReadAll(io.LimitReader(response.Body, maxResponse+1))
	if err == nil && len(read) > maxResponse {
		err = fmt.Errorf("the response is longer than %d bytes", maxResponse)
	}
	return response.StatusCode, read, true, err
}

// isRefusedCertificate returns whether the node rejected this client's certificate: by an alert that follows the
// client's part of the handshake, so that none of the request was processed.
func isRefusedCertificate(err error) bool {
	_, alert, found := strings.Cut(err.Error(), "remote error: tls: ")
	return found && strings.Contains(alert, "certificate")
}

// reason returns the innermost cause: "connection refused", not "dial tcp 127.0.0.1:7400: connect: ...".
func reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "timed out"
	}
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return certificate.Error()
	}
	for deeper := errors.Unwrap(err); deeper != nil; deeper = errors.Unwrap(err) {
		err = deeper
	}
	return err.Error()
}

func unknown(node endpoint, why string, cause error) *Error {
	return &Error{Code: "outcome-unknown", cause: cause, Detail: fmt.Sprintf(
		"the request was sent to %s and got no response (%s); it may have taken effect", node, why)}
}

// round decides after each endpoint whether the next one is tried.
type round struct {
	attempts []string
	wasSent  bool
	problem  *Error
	// tlsRequired is the problem of a port that requires TLS, and countTLS the number of such ports.
	tlsRequired *Error
	countTLS    int
}

// withoutTLS records a port that requires TLS, which has processed nothing of the request.
func (r *round) withoutTLS(node endpoint, refused *Error) {
	r.tlsRequired = refused
	r.countTLS++
	r.silent(node, refused.Detail, false)
}

func (r *round) silent(node endpoint, why string, wasSent bool) {
	r.wasSent = r.wasSent || wasSent
	r.attempts = append(r.attempts, fmt.Sprintf("%s (%s)", node, why))
}

// answered judges a response. It returns false if the next endpoint should be tried.
func (r *round) answered(node endpoint, status int, body []byte, changes bool, out any) (bool, error) {
	var err error
	if status >= 200 && status < 300 {
		if err = json.Unmarshal(body, out); err == nil {
			return true, nil
		}
	} else {
		var refused *Error
		if refused, _, err = problemOf(status, body); err == nil {
			// The holder of a lock is the same on all nodes.
			if !refused.Retryable || refused.Code == "lock-held" {
				return true, refused
			}
			r.problem = refused
			return false, nil
		}
	}
	// An intermediary may have forwarded the request before it failed.
	if changes && status >= 500 {
		return true, unknown(node, fmt.Sprintf("status %d", status), err)
	}
	return true, &Error{Code: "bad-answer", Status: status, cause: err, Detail: fmt.Sprintf(
		"%s returned status %d, and the response is not from seqd: %v; it begins with %.120q", node, status, err, body)}
}

// problemOf reads a response in problem+json, and whether it states that the port requires TLS.
func problemOf(status int, body []byte) (refused *Error, tlsRequired bool, err error) {
	var problem struct {
		Code, Detail, Hint string
		Retryable          bool
		RetryAfterMS       int64 `json:"retry_after_ms"`
		TLSRequired        bool  `json:"tls_required"`
	}
	if err := json.Unmarshal(body, &problem); err != nil {
		return nil, false, err
	}
	if problem.Code == "" {
		return nil, false, errors.New("it has no code")
	}
	return &Error{Code: problem.Code, Detail: problem.Detail, Hint: problem.Hint, Status: status,
		Retryable: problem.Retryable, Problem: body,
		RetryAfter: time.Duration(problem.RetryAfterMS) * time.Millisecond}, problem.TLSRequired, nil
}

// err returns the error of a round without an answer. A node's problem explains more than another's silence. A missing
// TLS is the error only if no endpoint failed otherwise: a retry may reach the others.
func (r *round) err(ctx context.Context) error {
	list := strings.Join(r.attempts, ", ")
	switch {
	case r.problem != nil:
		return r.problem
	case r.tlsRequired != nil && r.countTLS == len(r.attempts):
		return r.tlsRequired
	case r.wasSent:
		return &Error{Code: "no-answer", Detail: "no response: " + list, Retryable: true, cause: ctx.Err()}
	}
	hint := "is a node running there? set the endpoints, or SEQD_ENDPOINTS"
	if strings.Contains(list, "tls: ") || strings.Contains(list, "x509: ") {
		hint = "a node was reached, but TLS failed: set WithCA (SEQD_CACERT), or use http://"
	}
	return &Error{Code: "unreachable", Detail: "no node could be reached: " + list, Hint: hint, Retryable: true,
		cause: ctx.Err()}
}

func tlsConfig(ca []byte, certificate []tls.Certificate) (*tls.Config, error) {
	config := &tls.Config{Certificates: certificate, MinVersion: tls.VersionTLS12}
	if ca != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, invalid("the CA file has no certificate")
		}
	}
	return config, nil
}
