import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import crawlercommons.urlfrontier.URLFrontierGrpc;
import crawlercommons.urlfrontier.Urlfrontier;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * A client of URLFrontier made of the published classes. Its arguments are host and port. Each line of its input is a
 * call, {"rpc": NAME, "requests": [MESSAGE], "deadline": SECONDS, "metadata": {NAME: VALUE}, "take": REPLIES}, and is
 * answered by a line, {"replies": [MESSAGE], "code": CODE, "details": TEXT}. Messages are in the JSON form of protobuf.
 * After "take" replies the call is cancelled. The line "descriptor" is answered by the definition, in base64.
 */
public final class Client {
    public static void main(String[] arguments) throws Exception {
        ManagedChannel channel =
                NettyChannelBuilder.forAddress(arguments[0], Integer.parseInt(arguments[1])).usePlaintext().build();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        java.io.PrintStream output = new java.io.PrintStream(System.out, true, "UTF-8");
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            if (line.equals("descriptor")) {
                byte[] file = Urlfrontier.getDescriptor().toProto().toByteArray();
                output.println(Base64.getEncoder().encodeToString(file));
            } else {
                output.println(call(channel, JsonParser.parseString(line).getAsJsonObject()));
            }
        }
        channel.shutdownNow().awaitTermination(10, TimeUnit.SECONDS);
    }

    private static JsonObject call(ManagedChannel channel, JsonObject wanted) throws Exception {
        String name = URLFrontierGrpc.SERVICE_NAME + "/" + wanted.get("rpc").getAsString();
        for (MethodDescriptor<?, ?> method : URLFrontierGrpc.getServiceDescriptor().getMethods()) {
            if (method.getFullMethodName().equals(name)) {
                @SuppressWarnings("unchecked")
                MethodDescriptor<Message, Message> known = (MethodDescriptor<Message, Message>) method;
                return new Exchange(channel, known, wanted).result();
            }
        }
        throw new IllegalArgumentException("no such RPC in these classes: " + name);
    }

    /** A call that runs until its end. Requests are sent as soon as the transport takes them. */
    private static final class Exchange extends ClientCall.Listener<Message> {
        private final CountDownLatch ended = new CountDownLatch(1);
        private final JsonArray replies = new JsonArray();
        private final JsonObject result = new JsonObject();
        private final ClientCall<Message, Message> call;
        private final int take;

        Exchange(ManagedChannel channel, MethodDescriptor<Message, Message> method, JsonObject wanted)
                throws Exception {
            CallOptions options =
                    CallOptions.DEFAULT.withDeadlineAfter(wanted.get("deadline").getAsLong(), TimeUnit.SECONDS);
            Metadata metadata = new Metadata();
            for (var entry : wanted.getAsJsonObject("metadata").entrySet()) {
                metadata.put(
                        Metadata.Key.of(entry.getKey(), Metadata.ASCII_STRING_MARSHALLER),
                        entry.getValue().getAsString());
            }
            take = wanted.get("take").isJsonNull() ? Integer.MAX_VALUE : wanted.get("take").getAsInt();
            call = channel.newCall(method, options);
            call.start(this, metadata);
            call.request(1);
            Message prototype =
                    (Message) ((MethodDescriptor.PrototypeMarshaller<?>) method.getRequestMarshaller())
                            .getMessagePrototype();
            for (JsonElement request : wanted.getAsJsonArray("requests")) {
                Message.Builder builder = prototype.newBuilderForType();
                JsonFormat.parser().merge(request.toString(), builder);
                call.sendMessage(builder.build());
            }
            call.halfClose();
        }

        @Override
        public void onMessage(Message message) {
            try {
                replies.add(JsonParser.parseString(JsonFormat.printer().print(message)));
            } catch (java.io.IOException error) {
                throw new IllegalStateException(error);
            }
            if (replies.size() >= take) {
                call.cancel("taken", null);
            } else {
                call.request(1);
            }
        }

        @Override
        public void onClose(Status status, Metadata trailers) {
            result.add("replies", replies);
            result.addProperty("code", status.getCode().name());
            result.addProperty("details", status.getDescription());
            ended.countDown();
        }

        JsonObject result() throws InterruptedException {
            ended.await();
            return result;
        }
    }
}
