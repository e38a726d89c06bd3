import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A consumer that polls in its own thread, commits what it read, and tells what it holds. */
final class GroupMember implements ConsumerRebalanceListener {
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Thread thread;
    private final TreeSet<String> assigned = new TreeSet<>();
    private final List<Object> records = new ArrayList<>();
    private int rebalances;
    private String failure;
    private volatile boolean stopping;

    GroupMember(JsonNode request) {
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        consumer = new KafkaConsumer<>(Json.config(request), bytes, bytes);
        consumer.subscribe(Json.strings(request.get("topics")), this);
        thread = new Thread(this::poll, "group-member");
        thread.setDaemon(true);
        thread.start();
    }

    private void poll() {
        try {
            while (!stopping) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    synchronized (this) {
                        records.add(Json.record(record));
                    }
                }
            }
        } catch (WakeupException expected) {
            // stop() wakes the consumer up
        } catch (Exception thrown) {
            synchronized (this) {
                failure = thrown.toString();
            }
        } finally {
            consumer.close();
        }
    }

    synchronized Map<String, Object> state() {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("assigned", new ArrayList<>(assigned));
        result.put("rebalances", rebalances);
        result.put("records", new ArrayList<>(records));
        result.put("failure", failure);
        return result;
    }

    void stop() throws InterruptedException {
        stopping = true;
        consumer.wakeup();
        thread.join(20_000);
    }

    @Override
    public synchronized void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        partitions.forEach(partition -> assigned.add(partition.toString()));
        rebalances++;
    }

    @Override
    public synchronized void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        partitions.forEach(partition -> assigned.remove(partition.toString()));
    }

    @Override
    public synchronized void onPartitionsLost(Collection<TopicPartition> partitions) {
        onPartitionsRevoked(partitions);
    }
}
