import com.google.protobuf.util.JsonFormat;
import crawlercommons.urlfrontier.URLFrontierGrpc;
import crawlercommons.urlfrontier.URLFrontierGrpc.URLFrontierBlockingStub;
import crawlercommons.urlfrontier.Urlfrontier.*;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.CompletableFuture;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A crawler in Java that takes its URLs from a frontier of budgetfrontier, with the published API of URLFrontier:
 *
 *   budgetfrontier serve jobs --listen 127.0.0.1:7071          (in another terminal)
 *   mvn dependency:copy-dependencies
 *   java -cp 'target/dependency/*' Crawler.java 127.0.0.1:7071 http://localhost:8000/
 *
 * The crawl is the job jobs/java: `budgetfrontier report jobs/java` shows it. A JDK of version 11 or later is needed.
 */
public final class Crawler {
    private static final String CRAWL = "java";
    private static final Pattern LINK = Pattern.compile("(?i)\\bhref\\s*=\\s*[\"']?([^\"'#\\s>]+)");
    private static final HttpClient HTTP = HttpClient.newHttpClient();

    public static void main(String[] arguments) throws Exception {
        if (arguments.length < 2) {
            System.err.println("usage: java -cp 'target/dependency/*' Crawler.java HOST:PORT URL...");
            System.exit(2);
        }
        ManagedChannel channel = ManagedChannelBuilder.forTarget(arguments[0]).usePlaintext().build();
        List<String> seeds = List.of(arguments).subList(1, arguments.length);
        put(channel, discovered(seeds));
        URLFrontierBlockingStub frontier = URLFrontierGrpc.newBlockingStub(channel);
        // At most one URL of each of ten queues; one that is not reported within a minute is handed out again.
        GetParams wanted = GetParams.newBuilder()
                .setCrawlID(CRAWL).setMaxUrlsPerQueue(1).setMaxQueues(10).setDelayRequestable(60).build();
        QueueWithinCrawlParams crawl = QueueWithinCrawlParams.newBuilder().setCrawlID(CRAWL).build();
        while (frontier.getStats(crawl).getSize() > 0) {
            Iterator<URLInfo> leased = frontier.getURLs(wanted);
            if (!leased.hasNext()) {
                Thread.sleep(200); // all queues wait for their delays
            }
            while (leased.hasNext()) {
                visit(channel, leased.next(), seeds);
            }
        }
        System.out.println(JsonFormat.printer().omittingInsignificantWhitespace().print(frontier.getStats(crawl)));
        channel.shutdownNow();
    }

    /** Fetch a page, and report in one stream the links that it has and that it is completed. */
    private static void visit(ManagedChannel channel, URLInfo page, List<String> seeds) throws Exception {
        List<String> links = new ArrayList<>();
        URI uri = URI.create(page.getUrl());
        try {
            HttpRequest request = HttpRequest.newBuilder(uri).timeout(Duration.ofSeconds(30))
                    .header("User-Agent", "ExampleBot/1.0 (+https://example.org/bot)").build();
            Matcher found = LINK.matcher(HTTP.send(request, BodyHandlers.ofString()).body());
            while (found.find()) {
                String link = uri.resolve(found.group(1)).toString();
                if (seeds.stream().anyMatch(link::startsWith)) {
                    links.add(link);
                }
            }
        } catch (IOException | IllegalArgumentException error) {
            System.err.println(page.getUrl() + ": " + error);
        }
        List<URLItem> items = new ArrayList<>(discovered(links));
        items.add(URLItem.newBuilder().setKnown(KnownURLItem.newBuilder().setInfo(page)).build()); // no date: never again
        put(channel, items);
        System.out.println(page.getUrl());
    }

    private static List<URLItem> discovered(List<String> urls) {
        List<URLItem> items = new ArrayList<>();
        for (String url : urls) {
            URLInfo info = URLInfo.newBuilder().setUrl(url).setCrawlID(CRAWL).build();
            items.add(URLItem.newBuilder().setDiscovered(DiscoveredURLItem.newBuilder().setInfo(info)).build());
        }
        return items;
    }

    /** Send items, and wait until all are acknowledged, which means that they are on disk. */
    private static void put(ManagedChannel channel, List<URLItem> items) throws Exception {
        CompletableFuture<Void> ended = new CompletableFuture<>();
        StreamObserver<URLItem> stream = URLFrontierGrpc.newStub(channel).putURLs(new StreamObserver<AckMessage>() {
            @Override
            public void onNext(AckMessage acknowledgement) {}

            @Override
            public void onError(Throwable error) {
                ended.completeExceptionally(error);
            }

            @Override
            public void onCompleted() {
                ended.complete(null);
            }
        });
        items.forEach(stream::onNext);
        stream.onCompleted();
        ended.get();
    }
}
