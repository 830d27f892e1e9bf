// Package seqd is a client of seqd, a clustered sequencer: IDs made in this process under a worker lease, ranges of
// sequence values, locks with fencing tokens, and idempotent execution. It needs the standard library only.
//
// A request is sent to the endpoint of the last good response, and to the next one only if that is certainly harmless.
// A request that may have taken effect and has no response fails with the code outcome-unknown and is never sent again.
package seqd

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Client is a client of one cluster. It is safe for concurrent use.
type Client struct{ transport *transport }

type options struct {
	token         *string
	timeout       time.Duration
	ca            string
	cert, certKey string
}

// Option is an option of New.
type Option func(*options)

// WithToken sets the access token, for nodes that require one. An empty one sends none.
func WithToken(token string) Option { return func(o *options) { o.token = &token } }

// WithTimeout sets the deadline of one request, which all endpoints share, 3 s by default. The call ends half a second
// after it, so that the response about a missed deadline arrives.
func WithTimeout(timeout time.Duration) Option { return func(o *options) { o.timeout = timeout } }

// WithCA sets the PEM file with the CAs of the nodes, by default those of the system. It implies https.
func WithCA(file string) Option { return func(o *options) { o.ca = file } }

// WithCertificate sets the PEM files of this client's certificate and key, for nodes that require one. Empty names use
// none. It implies https.
func WithCertificate(cert, key string) Option {
	return func(o *options) { o.cert, o.certKey = cert, key }
}

// New returns a client of these endpoints: host, host:port or URLs, separated by commas. It does not connect yet. What
// is not given comes from SEQD_ENDPOINTS, SEQD_TOKEN or the file SEQD_TOKEN_FILE, SEQD_CACERT, SEQD_CERT and SEQD_KEY.
func New(endpoints string, opts ...Option) (*Client, error) {
	o := options{ca: os.Getenv("SEQD_CACERT"), cert: os.Getenv("SEQD_CERT"), certKey: os.Getenv("SEQD_KEY")}
	for _, opt := range opts {
		opt(&o)
	}
	if endpoints == "" {
		if endpoints = os.Getenv("SEQD_ENDPOINTS"); endpoints == "" {
			return nil, invalid("no endpoints are given: name the nodes, or set SEQD_ENDPOINTS")
		}
	}
	if o.token == nil {
		token, err := tokenOfEnvironment()
		if err != nil {
			return nil, err
		}
		o.token = &token
	}
	if o.timeout < 0 {
		return nil, invalid("the timeout must be positive, not %s", o.timeout)
	}
	if strings.ContainsFunc(*o.token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return nil, invalid("a token has printable ASCII characters only, and this one has others: " +
			"remove the line break of a file with strings.TrimSpace")
	}
	list, err := parseEndpoints(endpoints, o.ca != "" || o.cert != "")
	if err != nil {
		return nil, err
	}
	var ca []byte
	var certificates []tls.Certificate
	if o.ca != "" {
		if ca, err = os.ReadFile(o.ca); err != nil {
			return nil, invalid("the CA file cannot be read: %v", err)
		}
	}
	if o.cert != "" {
		certificate, err := tls.LoadX509KeyPair(o.cert, o.certKey)
		if err != nil {
			return nil, invalid("the client's certificate cannot be used: %v", err)
		}
		certificates = append(certificates, certificate)
	}
	config, err := tlsConfig(ca, certificates)
	if err != nil {
		return nil, err
	}
	return &Client{newTransport(list, o.timeout, *o.token, config)}, nil
}

func tokenOfEnvironment() (string, error) {
	token, file := os.Getenv("SEQD_TOKEN"), os.Getenv("SEQD_TOKEN_FILE")
	if token != "" || file == "" {
		return token, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", invalid("SEQD_TOKEN_FILE cannot be read: %v", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Fields are the fields of a request. Nil values are left out.
type Fields map[string]any

// Call sends a request of any operation and reads the response into out. The parameters are those of the path.
func (c *Client) Call(ctx context.Context, o Operation, parameters []any, fields Fields, out any) error {
	return c.callWithin(ctx, 0, o, parameters, fields, "", out)
}

func (c *Client) callWithin(ctx context.Context, limit time.Duration, o Operation, parameters []any, fields Fields,
	key string, out any) error {
	path, err := o.fill(parameters)
	if err != nil {
		return err
	}
	nonce, _ := fields["nonce"].(string)
	isRepeatable := key != "" || o.repeat == harmless || o.repeat == withNonce && nonce != ""
	request := call{method: o.method, path: path, key: key, changes: !isRepeatable, query: url.Values{}}
	if o.waits {
		request.wait = waitOf(fields["wait_ms"])
	}
	sent := Fields{}
	for name, value := range fields {
		if value != nil {
			sent[name] = value
		}
	}
	if o.method == "GET" || o.method == "DELETE" {
		for name, value := range sent {
			text, err := json.Marshal(value)
			if err != nil {
				return invalid("field %s: %v", name, err)
			}
			var plain string
			if json.Unmarshal(text, &plain) != nil {
				plain = string(text)
			}
			request.query.Set(name, plain)
		}
	} else if request.body, err = written(sent); err != nil {
		return invalid("the request cannot be written as JSON: %v", err)
	}
	return c.transport.send(ctx, request, limit, out)
}

// waitOf returns the wait that the node reads in a field of any type.
func waitOf(field any) time.Duration {
	var ms integer
	if text, err := json.Marshal(field); err == nil {
		_ = json.Unmarshal(text, &ms)
	}
	// A node refuses a longer one.
	return min(time.Duration(max(ms, 0)), longestRound/time.Millisecond) * time.Millisecond
}

// integer is a number that nodes send as a JSON string, because it may exceed 2^53.
type integer int64

func (i *integer) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	value, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64)
	*i = integer(value)
	return err
}

// orDefault leaves out an empty layout, so that the node uses the layout default.
func orDefault(layout string) any {
	if layout == "" {
		return nil
	}
	return layout
}

// ID returns one ID of a layout, or of the layout default if it is empty, minted by a node.
func (c *Client) ID(ctx context.Context, layout string) (int64, error) {
	var out struct{ ID integer }
	err := c.Call(ctx, OpId, nil, Fields{"layout": orDefault(layout)}, &out)
	return int64(out.ID), err
}

// IDs returns 1 to 10,000 IDs of a layout, strictly increasing, minted by one node.
func (c *Client) IDs(ctx context.Context, layout string, count int) ([]int64, error) {
	var out struct{ IDs []integer }
	if err := c.Call(ctx, OpIds, nil, Fields{"layout": orDefault(layout), "count": count}, &out); err != nil {
		return nil, err
	}
	ids := make([]int64, len(out.IDs))
	for at, id := range out.IDs {
		ids[at] = int64(id)
	}
	return ids, nil
}

// UUIDs returns UUIDs of version 7 or 4.
func (c *Client) UUIDs(ctx context.Context, version, count int) ([]string, error) {
	var out struct{ UUIDs []string }
	err := c.Call(ctx, OpUuids, nil, Fields{"version": version, "count": count}, &out)
	return out.UUIDs, err
}

// Layout returns the definition of a layout, which packs and unpacks IDs without a request.
func (c *Client) Layout(ctx context.Context, name string) (Layout, error) {
	var out Layout
	if err := c.Call(ctx, OpLayout, []any{name}, nil, &out); err != nil {
		return out, err
	}
	return out, out.check()
}

// CreateSequence creates a sequence, or accepts an equal one that exists. The definition has mode, start, increment,
// min, max, cycle and description.
func (c *Client) CreateSequence(ctx context.Context, name string, definition Fields) error {
	return c.Call(ctx, OpCreateSequence, []any{name}, definition, &struct{}{})
}

// Range is Count values from First to Last.
type Range struct{ First, Last, Count int64 }

// Next returns the next values of a sequence as ranges.
func (c *Client) Next(ctx context.Context, name string, count int) ([]Range, error) {
	return c.next(ctx, name, count, "")
}

// NextOnce returns the next values of a sequence, at most 1000, once for this key: a request that is sent again after
// outcome-unknown returns the same values.
func (c *Client) NextOnce(ctx context.Context, name string, count int, idempotencyKey string) ([]Range, error) {
	if len(idempotencyKey) < 1 || len(idempotencyKey) > 255 ||
		strings.ContainsFunc(idempotencyKey, func(c rune) bool { return c < ' ' || c > '~' }) {
		return nil, invalid("an idempotency key has 1 to 255 printable ASCII characters")
	}
	return c.next(ctx, name, count, idempotencyKey)
}

func (c *Client) next(ctx context.Context, name string, count int, key string) ([]Range, error) {
	var out struct {
		Ranges []struct{ First, Last, Count integer }
	}
	if err := c.callWithin(ctx, 0, OpNext, []any{name}, Fields{"count": count}, key, &out); err != nil {
		return nil, err
	}
	ranges := make([]Range, len(out.Ranges))
	for at, one := range out.Ranges {
		ranges[at] = Range{int64(one.First), int64(one.Last), int64(one.Count)}
	}
	return ranges, nil
}

// Timestamp returns a timestamp above every earlier one of the cluster: Unix milliseconds << 18 and a counter.
func (c *Client) Timestamp(ctx context.Context) (int64, error) {
	var out struct{ First integer }
	err := c.Call(ctx, OpTimestamps, nil, nil, &out)
	return int64(out.First), err
}

// newNonce returns 128 random bits, by which the cluster recognizes a repeated request.
func newNonce() string {
	var bytes [16]byte
	// It never fails on the systems that Go supports, and otherwise ends the program.
	_, _ = rand.Read(bytes[:])
	return hex.EncodeToString(bytes[:])
}

// written returns a value as JSON. Escaped <, > and & would be up to six times as long.
func written(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// notEnded returns the context, or one of this duration if it has ended: what is not returned now keeps others waiting.
func notEnded(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), patience)
}

// sleep waits, and returns an error if the context ends before.
func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
